"""What the machine offers: cores, instruction sets, the OpenMP runtime, GPUs, files."""
