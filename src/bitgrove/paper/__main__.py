"""`python -m bitgrove.paper ...` is `bitgrove paper ...`."""

import sys

from bitgrove.cli.main import main

sys.exit(main(["paper", *sys.argv[1:]]))
