#!/usr/bin/env bash
# Runs the benchmarks on a CUDA device and keeps what they print.
#
#     benchmarks/gpu.sh [FOLDER]      # default: gpu-results
#
# Needs the extras cuda and bench: pip install -e '.[cuda,bench]'. PYTHON chooses the interpreter.
# Exit code 3: there is no CUDA device that JAX can use.
set -euo pipefail
folder=$(realpath -m -- "${1:-gpu-results}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python}

if ! "$python" -c 'import jax; jax.devices("gpu")' 2>/dev/null; then
    echo "JAX sees no CUDA device with $python. Install the extra: pip install -e '.[cuda,bench]'" >&2
    exit 3
fi
# Memory is taken as it is needed, so that PyTorch finds some too.
export XLA_PYTHON_CLIENT_PREALLOCATE=false PYTHONUNBUFFERED=1
mkdir -p -- "$folder"

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
