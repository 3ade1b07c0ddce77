#!/bin/bash
# Measures others' searches on a GPU beside the library's, in one run: arrays of sorted keys (binary search,
# Eytzinger, k-ary search), unsorted and after CUB's sort, cuCollections' hash table, and MVGpuBTree.
#
# usage: bench/gpu/rivals.sh
#
# Fetches the sources of cuCollections and MVGpuBTree with git, at the commits below, into RIVALS_DIR
# (.private/rivals in the checkout); what is there already is not fetched.  They are not part of this project,
# and have licences of their own.  Prints the figures as CSV; RESULTS names a folder for them (rivals.csv).
#
# SIZES (23 26) are the powers of two of entries, RUNS (5) the number of runs.  CUDA_ARCHS lists the
# architectures to compile for; the default is that of the GPU.  BUILD_ONLY=1 compiles, and runs nothing.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/common.sh"
rivals=${RIVALS_DIR:-$root/.private/rivals}
cuco=dc0f9fc20c2a544e53099e640a681b347532391a
mvgpubtree=f755006d78ccca565f97cda053727d4d48b82d46
sizes=()
for size in ${SIZES:-23 26}; do
	sizes+=(-n "$size")
done

# fetch NAME REPOSITORY COMMIT: gets a commit alone.
fetch() {
	[ ! -e "$rivals/$1/LICENSE" ] || return 0
	say "Fetching $1"
	mkdir -p "$rivals/$1"
	git -C "$rivals/$1" init -q
	git -C "$rivals/$1" fetch -q --depth 1 "https://github.com/$2" "$3"
	git -C "$rivals/$1" checkout -q FETCH_HEAD
}

fetch cuco NVIDIA/cuCollections "$cuco"
fetch mvgpubtree owensgroup/MVGpuBTree "$mvgpubtree"
CUDA_ARCHS=${CUDA_ARCHS:-$(nvidia-smi --id=0 --query-gpu=compute_cap --format=csv,noheader | tr -d .)}
make -s -j "$(nproc)" -C "$root/cuda" CUDA_ARCHS="$CUDA_ARCHS" CUCO="$rivals/cuco" MVGPUBTREE="$rivals/mvgpubtree" rivals
[ -z "${BUILD_ONLY:-}" ] || exit 0
csv=/dev/null
if [ -n "${RESULTS:-}" ]; then
	mkdir -p "$RESULTS"
	csv=$RESULTS/rivals.csv
fi
"$root/cuda/build/bench_with_rivals" -r "${RUNS:-5}" "${sizes[@]}" rivals | tee "$csv"
