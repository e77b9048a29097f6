#!/bin/sh
# Builds the source archive and the wheel twice, in folders with different names, and compares them
# byte by byte: reproducible.sh PYTHON (make reproducible). What is built is the last commit, with
# its date; whoever has the same compiler and build requirements gets the same files.
set -eu
python=$(realpath -s "$1")
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for copy in here somewhere/else/entirely; do
  mkdir -p "$work/$copy" "$work/out/$copy"
  git archive HEAD | tar -x -C "$work/$copy"
  (cd "$work/$copy" && umask "$([ $copy = here ] && echo 022 || echo 077)" &&
    "$python" -m build --outdir "$work/out/$copy" . > "$work/log" 2>&1) || { cat "$work/log"; exit 1; }
  (cd "$work/out/$copy" && sha256sum -- *) > "$work/$(basename $copy).sums"
done
cat "$work/here.sums"
cmp "$work/here.sums" "$work/entirely.sums" && echo "two builds, the same bytes"
