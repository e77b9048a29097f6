"""The kernels of cpp/; their arguments are documented and checked there."""

from typing import Any

def __getattr__(name: str) -> Any: ...
