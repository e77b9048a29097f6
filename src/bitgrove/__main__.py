"""`python -m bitgrove` is the same as the `bitgrove` command."""

import sys

from bitgrove.cli.main import main

sys.exit(main())
