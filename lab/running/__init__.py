"""How experiments are run: what was asked for, cells kept on disk, several at once, files."""
