#!/bin/bash
# Builds the device library, checks it on the GPU and measures it, all in one call.
#
# usage: bench/gpu/run.sh [-f | -b] [SECTION...]
#
#   sizes fanouts psa ntg steps ranges break_even brute      all of them if none is named;
#   bench.cu says what they are
#
# Prints a CSV of figures and, if RESULTS names a folder, keeps it there as kernels.csv.
# -f, for first: checks only.  -b: benchmark only.
#
# CUDA_ARCHS picks what to compile for, the GPU's own architecture if not set.  RUNS (5), and
# BENCH_FLAGS for the benchmark's other options.  DEVICE=host tries it all without a GPU, at
# small sizes, which measures nothing.

set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
parts=(check measure)
flags=(-r "${RUNS:-5}")
make=(make -s -j "$(nproc)" -C "$root/cuda")
device=cuda

case ${1:-} in
	-f) parts=(check) && shift ;;
	-b) parts=(measure) && shift ;;
esac
if [ "${DEVICE:-}" = host ]; then
	device=host
	build=$root/cuda/build/host
	make+=(NVCC='' build=build/host)
	flags=(-d host -q 40000 -r 1 -n 16 -n 18)
else
	build=$root/cuda/build
	CUDA_ARCHS=${CUDA_ARCHS:-$(nvidia-smi --id=0 --query-gpu=compute_cap --format=csv,noheader | tr -d .)}
	make+=(CUDA_ARCHS="$CUDA_ARCHS")
fi

check() {
	printf '==> Host and %s device against a reference\n' "$device"
	"$build/test_device" host
	"$build/test_device" "$device"
	"$build/test_gpud" "$build/harmonia_gpud" "$device"
	if [ "$device" = cuda ] && command -v compute-sanitizer >/dev/null; then
		local tool
		for tool in memcheck synccheck; do
			printf '==> compute-sanitizer, %s\n' "$tool"
			TEST_LARGE=100000 compute-sanitizer --tool "$tool" --error-exitcode 1 \
				"$build/test_device" cuda 7 | tail -n 5
		done
	fi
}

measure() {
	local csv=/dev/null
	if [ -n "${RESULTS:-}" ]; then
		mkdir -p "$RESULTS"
		csv=$RESULTS/kernels.csv
	fi
	# shellcheck disable=SC2086
	"$build/bench" "${flags[@]}" ${BENCH_FLAGS:-} "$@" | tee "$csv"
}

"${make[@]}" all bench
for part in "${parts[@]}"; do
	"$part" "$@"
done
