"""What the benchmarks say about themselves and how they print, under one short name."""

from bitgrove.paper.machine import machine, markdown_table, n_cores, write_json

__all__ = ["machine", "markdown_table", "n_cores", "write_json"]
