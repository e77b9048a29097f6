"""The paper, reproduced: every table and figure as a command. See docs/paper.md.

`bitgrove paper table2` or `python -m bitgrove.paper table2`. One module per concern: task, datasets
(loaders, generators, encoding, specs), systems and peers, lineup, study, cells, workers and runs
(storing, measuring, writing), and one module per kind of experiment; experiments lists them all.
"""
