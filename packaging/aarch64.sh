#!/bin/sh
# Builds the core for 64-bit ARM and runs tests of it under emulation, on Debian or Ubuntu:
# aarch64.sh PYTHON TESTS... (make test-aarch64). PYTHON has pip, CMake and nanobind. Everything is
# kept in build/aarch64: the files of an ARM system (never run as one), packages of PyPI, the core.
set -eu
python=$1
shift
missing=
for need in aarch64-linux-gnu-g++:g++-aarch64-linux-gnu qemu-aarch64-static:qemu-user-static \
  mmdebstrap:mmdebstrap; do
  command -v "${need%%:*}" > /dev/null || missing="$missing ${need##*:}"
done
if [ -n "$missing" ]; then
  echo "tests for ARM need more packages: apt-get install$missing" >&2
  exit 1
fi
. /etc/os-release
here=build/aarch64
root=$here/root
mkdir -p "$here"
if ! [ -e "$root/usr/bin/python3" ]; then
  rm -rf "$root"
  mmdebstrap --quiet --arch=arm64 --variant=extract --include=python3,libpython3-dev,libstdc++6 \
    "$VERSION_CODENAME" "$root"
fi
version=$(basename "$(readlink "$root/usr/bin/python3")" | sed s/python//)
if ! [ -d "$here/site/sklearn" ]; then
  "$python" -m pip install --quiet --target "$here/site" --only-binary=:all: --python-version "$version" \
    --platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_24_aarch64 \
    --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 \
    'numpy>=1.24' 'scikit-learn>=1.6' 'tqdm>=4.60' 'pandas>=2.0' 'pytest>=8' 'hypothesis>=6.100'
fi
# The system's own Python has the version of the one in $root; CMake compares them.
cmake=$(command -v cmake || echo "$(dirname "$python")/cmake")
headers=$(realpath "$root")/usr/include
"$cmake" -S . -B "$here/core" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
  -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_CXX_FLAGS="-idirafter $headers" \
  -DPython_EXECUTABLE=/usr/bin/python3 -DPython_INCLUDE_DIR="$headers/python$version" \
  -DSKBUILD_SOABI="cpython-$(echo "$version" | tr -d .)-aarch64-linux-gnu" \
  -Dnanobind_DIR="$("$python" -m nanobind --cmake_dir)" \
  -DBITGROVE_STUB=OFF -DBITGROVE_WERROR=ON ${CMAKE_ARGS:-} > "$here/core.log" 2>&1 ||
  { cat "$here/core.log"; exit 1; }
"$cmake" --build "$here/core" --parallel "${JOBS:-$(nproc)}"
rm -rf "$here/package"
mkdir "$here/package"
cp -r src/bitgrove "$here/package/"
rm -f "$here"/package/bitgrove/_core*.so
cp "$here"/core/_core*.so "$here/package/bitgrove/"
PYTHONPATH=$here/package:$here/site PYTHONDONTWRITEBYTECODE=1 \
  qemu-aarch64-static -L "$root" "$root/usr/bin/python$version" -m pytest -p no:cacheprovider "$@"
