#!/bin/sh
# Looks up known weaknesses of all that `pip install bitgrove[...]` brings along, in the newest
# versions; one that the advisory database does not know is an error, not a pass: audit.sh PYTHON (make
# audit). Needs PyPI itself, not a mirror. CuPy is left out: its packages have gigabytes.
set -eu
here=build/audit
test -x $here/bin/python || "$1" -m venv $here
$here/bin/pip install --quiet --upgrade pip pip-audit
"$here/bin/python" - > $here/requirements.txt << 'END'
import sys
if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib
with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
extras = project["optional-dependencies"]
print(*project["dependencies"], *(one for name in ("cli", "plot", "mpi", "dask") for one in extras[name]), sep="\n")
END
$here/bin/pip-audit --requirement $here/requirements.txt --desc on --strict
