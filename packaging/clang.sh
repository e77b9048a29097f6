#!/bin/sh
# Reads the core with clang as strict C++20, without any instruction set of its own: what compilers
# on other systems see of it. clang.sh PYTHON (make test-clang).
set -eu
python=$1
if ! command -v "${CLANG:=clang++}" > /dev/null; then
  echo "needs clang: apt-get install clang" >&2
  exit 1
fi
headers="-isystem $("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  -isystem $("$python" -m nanobind --include_dir)"
for file in cpp/*/*.cpp; do
  # shellcheck disable=SC2086
  "$CLANG" -std=c++20 -pedantic-errors -Wall -Wextra -Werror -Wno-unknown-pragmas -DBITGROVE_SCALAR \
    -Icpp -Isrc/bitgrove/kernels/shared $headers -fsyntax-only "$file"
done
echo "clang reads $(ls cpp/*/*.cpp | wc -l) files as strict C++20"
