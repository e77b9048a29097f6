#!/bin/sh
# Builds the core with sanitizers beside the usual one and runs tests on it:
# sanitized.sh SANITIZERS PYTHON TESTS... (make test-asan, make test-tsan).
set -eu
sanitizers=$1 python=$2
shift 2
python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python")  # CMake wants the whole path
kind=$(echo "$sanitizers" | cut -d, -f1)
build=build/$kind
mkdir -p build
cmake=$(command -v cmake || echo "$(dirname "$python")/cmake")
"$cmake" -S . -B "$build" -DPython_EXECUTABLE="$python" -DBITGROVE_SANITIZE="$sanitizers" \
  -DBITGROVE_STUB=OFF ${CMAKE_ARGS:-} > "$build.log" 2>&1 || { cat "$build.log"; exit 1; }
"$cmake" --build "$build" --parallel "${JOBS:-$(nproc)}"
mkdir -p "$build/package"
cp -r src/bitgrove "$build/package/"
rm -f "$build"/package/bitgrove/_core*.so
cp "$build"/_core*.so "$build/package/bitgrove/"
# The finder of an editable install would come before the path, and bring the usual core.
echo 'import sys; sys.meta_path[:] = [x for x in sys.meta_path if not type(x).__module__.startswith("_editable")]' \
  > "$build/package/sitecustomize.py"
short=$(echo "$kind" | cut -c1)
# The C++ library beside it: exceptions of the core are thrown through the sanitizer.
library="$("${CXX:-c++}" -print-file-name="lib${short}san.so") $("${CXX:-c++}" -print-file-name=libstdc++.so.6)"
# The address space of a process under TSan may not be laid out at random.
LD_PRELOAD="$library" PYTHONPATH=$build/package${PYTHONPATH:+:$PYTHONPATH} PYTHONMALLOC=malloc \
  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
  TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=tests/threads.supp \
  setarch "$(uname -m)" -R "$python" -m pytest -p no:cacheprovider --capture=sys "$@"
