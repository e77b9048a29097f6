#!/bin/sh
# A fresh environment of an old Python with the oldest version of each dependency that pyproject.toml
# allows, and tests in it: lowest.sh PYTHON OLD_PYTHON TESTS... (make test-lowest). Kept in build/lowest.
set -eu
python=$1 old=$2
shift 2
if ! command -v "$old" > /dev/null; then
  echo "$old is not there; say which Python to use: make test-lowest LOWEST_PYTHON=..." >&2
  exit 1
fi
here=build/lowest
test -x $here/bin/python || "$old" -m venv $here
version=$($here/bin/python -c "import sys; print(*sys.version_info[:2], sep='.')")
"$python" packaging/lowest.py "$version" cli plot > $here/pins.txt
cat $here/pins.txt
$here/bin/pip install --quiet --upgrade pip
# What the tests themselves need may be new; what users have may be old.
$here/bin/pip install --quiet -r $here/pins.txt pytest hypothesis 'pandas==2.0.*' 'polars==1.0.*' .
rm -rf $here/tests && mkdir $here/tests
cp -r tests docs pyproject.toml $here/tests/
cd $here/tests
../bin/python -m pytest -p no:cacheprovider "$@"
