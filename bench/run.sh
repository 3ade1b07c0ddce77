#!/bin/bash
# Runs the benchmarks, and keeps figures, conditions, tables and plots in a folder.
#
# usage: bench/run.sh [gpu] [SUITE...]
#
#   index sizes lookup answers etl types shapes parallel updates wal dead clients foreign partitions versions planning
#   paper                                   on the CPU; default: all of them
#   citus                                   the same, where there is Citus
#   kernels device load                     on a GPU, after the word gpu
#   larger several counters rivals strom    the same, with more memory, two GPUs, ncu, others' sources, PG-Strom
#
# The folder is bench/results/DATE-HOST-KIND, or RESULTS.  Existing figures of the same
# suites in it are replaced.  QUICK=1 takes fewer rows and runs.  ROWS, RUNS,
# SECONDS_A_RUN and other variables of the suites' scripts are passed on to them.  If a
# suite fails, the others still run.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"

kind=cpu
suites=(index sizes lookup answers etl types shapes parallel updates wal dead clients foreign partitions versions planning
	paper)
if [ "${1:-}" = gpu ]; then
	kind=gpu
	suites=(kernels device load)
	shift
fi
[ $# -eq 0 ] || suites=("$@")

if [ -n "${QUICK:-}" ]; then
	export ROWS=${ROWS:-2000000} RUNS=${RUNS:-3} SECONDS_A_RUN=${SECONDS_A_RUN:-2} WAIT_SECONDS=${WAIT_SECONDS:-20}
	kind+=-quick
fi
export RESULTS=${RESULTS:-$root/bench/results/$(date -u +%F)-$(hostname -s)-$kind}

run_suite() {
	case $1 in
		kernels) "$root/bench/gpu/run.sh" -b ;;
		device) "$root/bench/gpu/sql.sh" ;;
		load | larger | several | counters | rivals | strom) "$root/bench/gpu/$1.sh" ;;
		*) "$root/bench/$1.sh" ;;
	esac
}

# Prints the first line of a command's output, if the command exists.
first_line() {
	{ command -v "$1" && "$@"; } 2>/dev/null | sed -n 2p
}

# Prints the conditions of the measurements.
conditions() {
	local nvcc pg_config=${BINDIR:+$BINDIR/pg_config}
	pg_config=${pg_config:-${PG_CONFIG:-pg_config}}
	nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
	cat <<-END

		## $(date -u '+%F %H:%M') UTC: ${suites[*]}

		- harmonia $(git -C "$root" describe --always --dirty --abbrev=12 2>/dev/null || echo 'without a repository')
		- $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) processors, load $(cut -d ' ' -f 1-3 /proc/loadavg) at the start
		- $(awk '/^MemTotal/ { printf "%.1f GB of memory", $2 / 1e6 } /^HugePages_Total/ { printf ", %d huge pages", $2 }' /proc/meminfo), transparent ones: $(cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || echo unknown)
		- Linux $(uname -r), $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)
		- $("$pg_config" --version), extension built with $(first_line "${CC:-gcc}" --version)
		- CUDA: $("$nvcc" --version 2>/dev/null | sed -n 's/^Cuda compilation tools, //p' | grep . || echo none); GPU: $(nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader 2>/dev/null | paste -s -d ';' | grep . || echo none)
	END
}

failed=()
mkdir -p "$RESULTS"
conditions >>"$RESULTS/conditions.md"
for suite in "${suites[@]}"; do
	rm -f "$RESULTS/$suite.csv"
	start=$SECONDS
	run_suite "$suite" || failed+=("$suite")
	echo "- Suite $suite took $((SECONDS - start)) s" >>"$RESULTS/conditions.md"
done

"$root/bench/report.sh" "$RESULTS"
[ ${#failed[@]} -eq 0 ] || die "failed: ${failed[*]}"
say "Kept in $RESULTS"
