"""Finished models on the GPU: forests uploaded once, which rows of values walk through."""
