#!/usr/bin/env bash
# Checks the kernels on a CUDA device, runs the benchmarks there and keeps what they print.
#
#     benchmarks/gpu.sh [FOLDER]      # default: gpu-results
#
# Needs an NVIDIA driver and Python >= 3.11 with venv and pip, nothing else: it installs balar with
# the extras cuda and bench into .venv-gpu. PYTHON names an interpreter that has them already;
# nothing is installed then. Exit code 1: a kernel is wrong, nothing was timed. Exit code 3: there
# is no CUDA device that JAX can use.
set -euo pipefail
folder=$(realpath -m -- "${1:-gpu-results}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."

no_device() {
    printf 'There is no CUDA device that JAX can use: %s\n' "$1" >&2
    exit 3
}

# The extra cuda is built for CUDA 13; drivers for CUDA 12 get JAX's build for CUDA 12.
install() {
    local cuda extras
    cuda=$(nvidia-smi | sed -nE 's/.*CUDA Version: ([0-9]+).*/\1/p')
    case $cuda in
        '') no_device 'nvidia-smi does not say which CUDA the driver supports.' ;;
        [0-9] | 1[01]) no_device "the driver supports CUDA $cuda; 12 or newer is needed." ;;
        12) extras=(-e '.[bench]' 'jax[cuda12]') ;;
        *) extras=(-e '.[cuda,bench]') ;;
    esac
    python3 -m venv .venv-gpu
    .venv-gpu/bin/python -m pip install --quiet -c constraints.txt "${extras[@]}"
}

if [[ -n ${PYTHON:-} ]]; then
    python=$PYTHON
else
    nvidia-smi >/dev/null 2>&1 || no_device 'nvidia-smi finds no NVIDIA driver.'
    install
    python=$PWD/.venv-gpu/bin/python
fi
"$python" -c 'import jax; jax.devices("cuda")' 2>/dev/null ||
    no_device "$python sees none. It needs the extra: pip install 'balar[cuda,bench]'."

# Memory is taken as it is needed, so that PyTorch finds some too.
export XLA_PYTHON_CLIENT_PREALLOCATE=false PYTHONUNBUFFERED=1
mkdir -p -- "$folder"

"$python" -m benchmarks.kernel_check --device gpu --json "$folder/kernel_check.json" |
    tee "$folder/kernel_check.txt"
"$python" -m benchmarks.mutual_information --device gpu \
    --sizes 1024x15x4,4096x50x4,49152x200x4,1048576x50x4 --memory-limit 32000000000 \
    --json "$folder/mutual_information.json" --plot "$folder/mutual_information.svg" --table |
    tee "$folder/mutual_information.txt"
for kind in sharp zeros weak; do
    "$python" -m benchmarks.mutual_information --device gpu --sizes 49152x200x4 --tables "$kind" \
        --rivals '' --json "$folder/mutual_information-$kind.json" |
        tee "$folder/mutual_information-$kind.txt"
done
"$python" -m benchmarks.turn_latency --device gpu --json "$folder/turn_latency.json" |
    tee "$folder/turn_latency.txt"
"$python" -m benchmarks.batches --device gpu --counts 8,64,512 --json "$folder/batches.json" |
    tee "$folder/batches.txt"
echo "Everything is in $folder"
