"""Sparse tables: their stored values, their edges and their bins."""
