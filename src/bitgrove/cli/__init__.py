"""The `bitgrove` command."""

from bitgrove.cli.main import main

__all__ = ["main"]
