"""Rows that are bins already: in memory, and as a file."""
