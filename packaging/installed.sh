#!/bin/sh
# Installs a wheel in a fresh environment, far from the repository, and runs tests against it:
# installed.sh PYTHON WHEEL TESTS...
set -eu
python=$1 wheel=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "$wheel" pytest hypothesis pandas
cp -r tests pyproject.toml "$work/"
cd "$work"
venv/bin/python -c "import bitgrove; print(bitgrove.__file__); assert '$work' in bitgrove.__file__"
venv/bin/python -m pytest -p no:cacheprovider "$@"
