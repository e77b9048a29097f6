"""The oldest supported version of every dependency: what `make test-lowest` installs.

`lowest.py 3.10 cli plot` prints one pin per requirement that has a lower bound, of the runtime and
of the named extras: `numpy>=1.24` becomes `numpy==1.24.*`, so that the newest mended release of
that version is tried.
"""

from __future__ import annotations

import sys
from importlib.metadata import requires

from packaging.requirements import Requirement


def pins(project: str, python: str, extras: list[str]) -> list[str]:
    """Of that version of Python."""
    found = {}
    for line in requires(project) or []:
        requirement = Requirement(line)
        wanted = any(
            requirement.marker is None
            or requirement.marker.evaluate({"extra": extra, "python_version": python})
            for extra in ["", *extras]
        )
        bounds = [one.version for one in requirement.specifier if one.operator == ">="]
        if wanted and bounds:
            options = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
            found[requirement.name] = f"{requirement.name}{options}=={bounds[0]}.*"
    return sorted(found.values())


if __name__ == "__main__":
    print("\n".join(pins("bitgrove", sys.argv[1], sys.argv[2:])))
