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
libraries=libstdc++ failed=0
echo '#include <atomic>' | "$CLANG" -x c++ -stdlib=libc++ -fsyntax-only - 2> /dev/null && libraries="$libraries libc++"
for library in $libraries; do # that of Apple's compiler is libc++: apt-get install libc++-dev
  for file in cpp/*/*.cpp; do
    # shellcheck disable=SC2086
    "$CLANG" -stdlib=$library -std=c++20 -pedantic-errors -Wall -Wextra -Werror -Wno-unknown-pragmas \
      -DBITGROVE_SCALAR -iquote cpp -iquote src/bitgrove/kernels/shared -iquote src/bitgrove/kernels/growth $headers -fsyntax-only "$file" ||
      failed=1
  done
  echo "clang with $library reads $(ls cpp/*/*.cpp | wc -l) files as strict C++20"
done
exit $failed
