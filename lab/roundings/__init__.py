"""Ideas on rounding, tried on the real core before the library has them, and kept only if they win.

internals makes one tree's rows or splits otherwise than the library does; samplers are the rules of
sparse rounding and its rivals in NumPy; sparse_rounding and split_refit are the experiments.
"""
