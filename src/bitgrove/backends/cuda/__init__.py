"""One NVIDIA GPU, through CuPy: memory, launches, rounds of a tree, prediction."""
