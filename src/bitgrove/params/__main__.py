"""`python -m bitgrove.params` prints docs/parameters.md."""

from bitgrove.params.reference_page import render_markdown

print(render_markdown(), end="")
