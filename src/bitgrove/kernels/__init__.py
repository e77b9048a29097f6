"""Kernels and what they are told: headers for both compilers, CUDA sources, dtypes of plans."""
