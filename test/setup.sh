#!/usr/bin/env bash
# setup.sh: everything that building and testing Tempo needs, on Debian 12 or later, from nothing. Run it as often as
# you like: what is there already is left alone, and then it uses no network. ./demo and ./check call it.
#   Debian packages   what is missing of packages.txt, by apt-get (as root, or through sudo); with --demo, of those that
#                     ./demo needs
#   build/py          a Python environment with onnx, onnxruntime and numpy (requirements.txt): oracles of the tests
#   build/cuda        with --cuda: nvcc, its headers and libraries, cuBLAS (cuda_packages.txt), 0.9 GB; the build takes
#                     them where there is no other nvcc
set -euo pipefail
cd "$(dirname "$0")/.."
case "$*" in
"" | --cuda | --demo) ;;
*) echo "setup: usage: test/setup.sh [--cuda | --demo]" >&2; exit 64 ;;
esac

wanted=$(awk -v only="${1-}" '!/^#/ && NF && (only != "--demo" || $2 == "demo") { print $1 }' test/packages.txt)
missing=()
for package in $wanted; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    as_root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { echo "setup: as root, run: apt-get install ${missing[*]}" >&2; exit 1; }
        as_root=(sudo)
    fi
    echo "setup: installing ${missing[*]}"
    "${as_root[@]}" apt-get update -qq
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends \
        "${missing[@]}" >/dev/null
fi

stamp=build/py/.requirements
if ! cmp -s test/requirements.txt "$stamp"; then
    echo "setup: making the Python environment build/py"
    mkdir -p build
    rm -rf build/py
    python3 -m venv build/py
    # What is imported is compiled then: to compile all of it here takes longer.
    build/py/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -r test/requirements.txt
    cp test/requirements.txt "$stamp"
fi

if [ "${1-}" = --cuda ] && ! cmp -s test/cuda_packages.txt build/cuda/.packages; then
    echo "setup: installing a CUDA toolkit into build/cuda"
    rm -rf build/cuda build/cuda.new
    build/py/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
        --target build/cuda.new -r test/cuda_packages.txt
    mv build/cuda.new/nvidia/cu13 build/cuda
    mkdir build/cuda/licenses
    for info in build/cuda.new/*.dist-info; do
        cp -r "$info/licenses" "build/cuda/licenses/$(basename "$info" .dist-info)"
    done
    rm -rf build/cuda.new
    cp test/cuda_packages.txt build/cuda/.packages
fi
