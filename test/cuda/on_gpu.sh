#!/usr/bin/env bash
# on_gpu.sh: everything that only a GPU can tell, in one command of at most ten minutes that needs no network.
#   on_gpu.sh --pack FOLDER              builds here, puts into FOLDER what the other machine needs: less than 60 MiB
#   on_gpu.sh --pack FOLDER --emulated   the same with the emulated device: to try this without a GPU
#   on_gpu.sh --run FOLDER OUT           there: runs all of it and writes OUT/results.json; also as FOLDER/on_gpu.sh
# Packing needs what ./check needs, and nvcc; running needs bash, python3, and a driver for CUDA 13 with cuBLASLt.
set -euo pipefail
usage() { sed -n '2,6s/^# \?//p' "${BASH_SOURCE[0]}" >&2; exit 64; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [ "${1-}" = --run ] && [ $# = 3 ]; then
    pack=$(cd "$2" && pwd)
    mkdir -p "$3"
    export LD_LIBRARY_PATH=$pack/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    # Libraries may lie where the loader does not look: the driver's; cuBLASLt in a toolkit or among Python packages.
    wheels=$(python3 -c 'import sys; print(*(p + "/nvidia/*/lib" for p in sys.path if p.endswith("-packages")))')
    for folder in /usr/local/nvidia/lib64 /usr/local/cuda*/lib64 /usr/local/cuda*/lib $wheels; do
        [ -e "$folder/libcuda.so.1" ] || [ -e "$folder/libcublasLt.so.13" ] || continue
        LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$folder
    done
    exec python3 "$pack/on_gpu_run.py" "$pack" "$3"
fi
[ "${1-}" = --pack ] && [ $# -ge 2 ] && [ $# -le 3 ] && [ "${3---emulated}" = --emulated ] || usage

root=$(cd "$here/../.." && pwd)
mkdir -p "$2"
pack=$(cd "$2" && pwd)
cd "$root"
(cd "$pack" && rm -rf bin lib models masks steps cases.tar.gz emulated)
mkdir -p "$pack/bin" "$pack/lib"
cp "$here/on_gpu.sh" "$here/gpu/on_gpu_run.py" "$pack"

if [ "${3-}" = --emulated ]; then
    build=build device=test/device/tempo-run-emulated rates=test/cuda/emulated_rates checks=test/cuda/check_
    targets=(tempoc tempo-run test/device/tempo-run-emulated "$rates")
else
    build=build-gpu device=test/device/tempo-run-gpu rates=test/cuda/gpu_rates checks=test/cuda/gpu_check_
    targets=(tempoc tempo-run gpu-programs)
fi
options=(-Dgpu_arch=90a -Donednn=disabled) # for the GPU alone; oneDNN has 40 MB
[ -f "$build/build.ninja" ] || meson setup "$build" $([ "$build" = build ] || echo "${options[@]}") >"$build.log" 2>&1
grep -qs "${checks}pointwise" "$build/build.ninja" || { echo "on_gpu: $build has no CUDA; is nvcc there?" >&2; exit 1; }
families=($(grep -oE "^build ${checks}[a-z_]+:" "$build/build.ninja" | sed -E "s|^build ${checks}||; s|:$||" | sort -u))
[ "$build" != build ] || for family in "${families[@]}"; do targets+=("$checks$family"); done
nice ninja -C "$build" "${targets[@]}" >"$build.log" 2>&1 || { tail -20 "$build.log" >&2; exit 1; }

strip -o "$pack/bin/tempo-run" "$build/$device"
strip -o "$pack/bin/gpu_rates" "$build/$rates"
for family in "${families[@]}"; do strip -o "$pack/bin/check_$family" "$build/$checks$family"; done
[ "$build" = build ] || strip -o "$pack/lib/libtempo_gpu.so" "$build/test/cuda/libtempo_gpu.so"
# All shared libraries but those of the C library, which every machine has.
for program in "$pack"/bin/*; do LD_LIBRARY_PATH=$pack/lib ldd "$program"; done |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libtempo_gpu|libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so' | xargs -r cp -Lt "$pack/lib"

build/py/bin/python "$here/gpu/on_gpu_pack.py" "$pack" "$build/tempoc" "$build/test/backend/cases" \
    $([ "$build" = build ] && echo tiny || echo 128 512)
git rev-parse HEAD >"$pack/commit" 2>/dev/null || echo unknown >"$pack/commit"
[ "${3-}" != --emulated ] || touch "$pack/emulated"
du -sh --apparent-size "$pack"
