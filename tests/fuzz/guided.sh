#!/bin/sh
# Coverage-guided fuzzing of all readers: guided.sh PYTHON SECONDS TARGETS...
# Builds the core with clang for libFuzzer, with AddressSanitizer and UndefinedBehaviorSanitizer, beside
# the usual one; needs clang, OpenMP for it, and the packages of the extra `fuzz`.
set -eu
python=$1 seconds=$2
shift 2
build=build/guided
cmake=$(command -v cmake || echo "$(dirname "$python")/cmake")
mkdir -p build
"$cmake" -S . -B "$build" -DPython_EXECUTABLE="$python" -DCMAKE_CXX_COMPILER=clang++ \
  -DBITGROVE_SANITIZE=fuzzer-no-link,address,undefined -DBITGROVE_STUB=OFF ${CMAKE_ARGS:-} > "$build.log" 2>&1 ||
  { cat "$build.log"; exit 1; }
"$cmake" --build "$build" --parallel "${JOBS:-$(nproc)}"
mkdir -p "$build/package"
cp -r src/bitgrove "$build/package/"
rm -f "$build"/package/bitgrove/_core*.so
cp "$build"/_core*.so "$build/package/bitgrove/"
runtime=$("$python" -c "import atheris; print(atheris.path())")/asan_with_fuzzer.so
for target in "$@"; do
  LD_PRELOAD=$runtime PYTHONPATH=$build/package:.:tests:tests/model:tests/backends:tests/cli:tests/streams:${PYTHONPATH:-} \
    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
    "$python" -m tests.fuzz.guided "$target" --seconds $((seconds / $#))
done
