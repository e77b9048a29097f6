"""The lab: experiments and benchmarks around the library, outside of its wheel. See README.md.

From the root of the repository: `python -m lab list`, `python -m lab table2 --quick`,
`python -m lab bench versus_peers`.
"""
