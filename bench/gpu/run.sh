#!/bin/bash
# Builds the device library, tests it on the GPU and measures it.
#
# usage: bench/gpu/run.sh [-f | -b] [SECTION...]
#
#   sizes fanouts psa ntg steps ranges break_even brute wide rivals     default: all of them;
#   bench.cu describes them
#
# Prints the figures as CSV and, if RESULTS names a folder, writes them to kernels.csv
# there. -f (first) only tests, -b (benchmark) only measures.
#
# CUDA_ARCHS lists the architectures to compile for; the default is that of the GPU.
# RUNS (5) is the number of runs, BENCH_FLAGS are other options of the benchmark.
# DEVICE=host runs everything without a GPU, at small sizes: this tests the script and
# measures nothing.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/common.sh"
steps=(check measure)
flags=(-r "${RUNS:-5}")
make=(make -s -j "$(nproc)" -C "$root/cuda")
device=cuda

case ${1:-} in
	-f) steps=(check) && shift ;;
	-b) steps=(measure) && shift ;;
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
	"$build/test_leaves" "$device"
	"$build/test_wide" "$device"
	"$build/test_gpud" "$build/harmonia_gpud" "$device"
	if [ "$device" = cuda ] && command -v compute-sanitizer >/dev/null; then
		local tool
		for tool in memcheck synccheck racecheck initcheck; do
			printf '==> compute-sanitizer, %s\n' "$tool"
			TEST_LARGE=20000 compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/test_device" cuda brief 7 | tail -n 5
		done

		# With lanes racecheck had not ended the first test after two minutes.
		for tool in memcheck synccheck initcheck; do
			printf '==> compute-sanitizer, %s with lanes\n' "$tool"
			TEST_LARGE=20000 compute-sanitizer --tool "$tool" --error-exitcode 1 "$build/test_device" cuda lanes 7 | tail -n 5
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
for step in "${steps[@]}"; do
	"$step" "$@"
done
