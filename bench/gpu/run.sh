#!/bin/bash
# Builds the device library, checks it on the GPU and measures it, all in one call.
#
# usage: bench/gpu/run.sh [-f | FOLDER]
#
# Writes gpu-DEVICE-DATE.csv into FOLDER (bench/results) and prints it.  -f, for first:
# checks only.  CUDA_ARCHS picks what to compile for, the GPU's own architecture if not
# set; BENCH_FLAGS goes to the benchmark (-s sweeps sort widths and thread groups).

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
results=${1:-$root/bench/results}
build=$root/cuda/build

gpu() {
	nvidia-smi --id=0 --query-gpu="$1" --format=csv,noheader
}

export CUDA_ARCHS=${CUDA_ARCHS:-$(gpu compute_cap | tr -d .)}
make -s -j "$(nproc)" -C "$root/cuda" all bench

printf '==> Host and CUDA device against a reference\n'
"$build/test_device" host
"$build/test_device" cuda
"$build/test_gpud" "$build/harmonia_gpud" cuda
if command -v compute-sanitizer >/dev/null; then
	for tool in memcheck synccheck; do
		printf '==> compute-sanitizer, %s\n' "$tool"
		TEST_LARGE=100000 compute-sanitizer --tool "$tool" --error-exitcode 1 \
			"$build/test_device" cuda 7 | tail -n 5
	done
fi
[ "$results" != -f ] || exit 0

printf '==> Benchmark\n'
mkdir -p "$results"
name=gpu-$(gpu name | tr -cs '[:alnum:]\n' - )-$(date -u +%F).csv
# shellcheck disable=SC2086
"$build/bench" ${BENCH_FLAGS--s} | tee "$results/$name"
printf 'Kept as %s\n' "$results/$name"
