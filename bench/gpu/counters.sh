#!/bin/bash
# Reads the GPU's counters while it searches: what the papers' figures 2 to 4, 10, 12, 16 and 17 show of
# memory and of divergence.
#
# usage: bench/gpu/counters.sh [SECTION...]
#
#   steps psa ntg                 default: all of them; bench.cu describes them
#
# For each row of a section, and for all kernels of a batch together:
#
#   transactions   sectors of 32 bytes that loads ask the caches for, a query
#   divergence     such sectors a load of a warp: 1 if its threads read the same sector, 32 if each reads another
#   DRAM           bytes that are read from and written to the GPU's memory, a query
#   coherence      threads of 32 that take part in an instruction, on average
#   instructions   of warps, a query
#
# Prints the figures as CSV; RESULTS names a folder for them (counters.csv).  Wants ncu, of NVIDIA's Nsight Compute, and a
# driver that lets the user read counters.  QUERIES (10000000) is the size of a batch, SIZES (23 26) are
# the powers of two of entries, CUDA_ARCHS lists the architectures to compile for, BENCH is a program that
# has been built.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/common.sh"
queries=${QUERIES:-10000000}
[ $# -gt 0 ] || set -- steps psa ntg
sizes=()
for size in ${SIZES:-23 26}; do
	sizes+=(-n "$size")
done
sectors=l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum
loads=l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum
metrics=$sectors,$loads,dram__bytes_read.sum,dram__bytes_write.sum,smsp__inst_executed.sum,smsp__thread_inst_executed.sum

command -v ncu >/dev/null || die 'there is no ncu: install Nsight Compute, of the CUDA Toolkit'
if [ -z "${BENCH:-}" ]; then
	CUDA_ARCHS=${CUDA_ARCHS:-$(nvidia-smi --id=0 --query-gpu=compute_cap --format=csv,noheader | tr -d .)}
	make -s -j "$(nproc)" -C "$root/cuda" CUDA_ARCHS="$CUDA_ARCHS" bench
	BENCH=$root/cuda/build/bench
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
csv=/dev/null
if [ -n "${RESULTS:-}" ]; then
	mkdir -p "$RESULTS"
	csv=$RESULTS/counters.csv
fi

# Kernels get the name of the range in which they run, that of a row (bench.h), and their own after a slash.
ncu --profile-from-start off --nvtx --print-nvtx-rename kernel --metrics "$metrics" --csv --page raw --print-units base \
	--log-file "$dir/log" "$BENCH" -q "$queries" -r 1 -w 64 "${sizes[@]}" "$@" >"$dir/rows" || {
	tail -n 20 "$dir/log" >&2
	die 'ncu failed'
}
awk -F '","' -v queries="$queries" '
	function number(name) {
		gsub(/[",]/, "", $column[name])
		return $column[name] + 0
	}
	function put(what, value, unit,   part) {
		split(row, part, ";")
		printf "counters,%s: %s,%s,%s,%.4g,%s,1,,%s\n", part[1], what, part[2], part[3], value, unit, device
	}
	!/^"/ { next }
	!header {
		for (i = 1; i <= NF; i++) {
			gsub(/"/, "", $i)
			column[$i] = i
		}
		header = NR
		print "suite,section,case,system,value,unit,runs,remark,device"
		next
	}
	NR == header + 1 { next }		# units
	{
		row = $column["Kernel Name"]
		sub("/.*", "", row)
		if (!(row in seen))
			rows[++n] = row
		seen[row]
		sectors[row] += number("'$sectors'")
		loads[row] += number("'$loads'")
		bytes[row] += number("dram__bytes_read.sum") + number("dram__bytes_write.sum")
		instructions[row] += number("smsp__inst_executed.sum")
		threads[row] += number("smsp__thread_inst_executed.sum")
	}
	END {
		for (i = 1; i <= n; i++) {
			row = rows[i]
			if (loads[row] == 0)
				continue
			put("transactions", sectors[row] / queries, "sectors/query")
			put("divergence", sectors[row] / loads[row], "sectors/load")
			put("DRAM", bytes[row] / queries, "bytes/query")
			put("coherence", threads[row] / instructions[row], "threads")
			put("instructions", instructions[row] / queries, "warp instructions/query")
		}
		exit n == 0
	}' device="$(nvidia-smi --id=0 --query-gpu=name --format=csv,noheader)" "$dir/log" | tee "$csv"
