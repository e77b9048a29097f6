"""What the machine offers: cores, instruction sets, GPUs, files."""
