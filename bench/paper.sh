#!/bin/bash
# Repeats on the CPU what the Harmonia papers measured (PPoPP 2019, TPDS 2020), with the
# batch lookup engine, called from SQL, and with the tree engine alone, each on one
# processor.
#
# usage: bench/paper.sh [SECTION...]
#
#   sizes      indexes of different sizes, batches of 1 to 10 million keys, distributions
#   fanouts    8 to 128
#   ranges     ranges of 1 to 1024 entries
#   steps      optimisations in turn, starting with a regular B+tree (tree engine alone)
#   psa        number of sorted bits, from none to all (tree engine alone)
#   brute      compare all keys with each query, in small trees (no engine at all)
#
# Default: all of them.  Environment: ROWS (67108864, 2^26), RUNS (5), WIDTHS of keys
# ("64 32"), DRAWS ("uniform normal gamma zipf serial"; there is also "clustered"),
# FILLFACTOR (100, because the papers' trees are packed), VARIANT of the instructions
# (best, or avx512, avx2, portable), HUGE_PAGES (try; needs vm.nr_hugepages), and the
# variables of bench/common.sh.  Sizes are the powers of two from 2^23 up to ROWS, or
# the greatest one below ROWS if that is smaller.  Takes about 30 bytes of memory and
# 100 of disk space for each row; steps take about 70 of memory.
#
# Millions per second are of CPU time, including the sort of the probes.  The engine
# reads its pages in shared buffers, which it pins and locks.  Each run looks up other
# keys.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite paper 67108864 5 0
draws=${DRAWS:-uniform normal gamma zipf serial}
widths=${WIDTHS:-64 32}
fillfactor=${FILLFACTOR:-100}
variant=${VARIANT:-best}
tree_bench=$root/cuda/build/host/bench

sizes=()
for ((size = 10; 1 << size <= rows; size++)); do
	[ ${#sizes[@]} -gt 0 ] && [ "$size" -le 23 ] && sizes=()
	sizes+=("$size")
done
[ ${#sizes[@]} -gt 0 ] || die 'at least 1024 rows'

# Installs the module that calls the engine, beside the server's extension.
install_engine() {
	local programs
	programs=$(dirname "$(command -v postgres)")
	if [ "${programs%"$bindir"}" != "$programs" ]; then
		make -s -C "$root/test/engine" PG_CONFIG="$bindir/pg_config" install DESTDIR="${programs%"$bindir"}"
	else
		make -s -C "$root/test/engine" PG_CONFIG="$programs/pg_config" install
	fi
}

loaded=''
load() {
	[ -z "$loaded" ] || return 0
	say "Loading $rows rows"
	install_engine
	sql -c 'CREATE EXTENSION harmonia_engine' \
		-c "CREATE UNLOGGED TABLE t AS SELECT i, hashint8extended(i, 0) AS k64,
			hashint8extended(i, 7)::bit(32)::int AS k32 FROM generate_series(1::bigint, $rows) i"
	loaded=1
}

# build_index WIDTH SIZE FANOUT: makes the only index, of the first 2^SIZE rows.
build_index() {
	sql -c 'DROP INDEX IF EXISTS t_index' \
		-c "CREATE INDEX t_index ON t USING harmonia (k$1) WITH (fanout = $3, fillfactor = $fillfactor) WHERE i <= $((1 << $2))"
}

# look_up BATCH DRAW SPAN: sets $figure, in millions per second, to the median of
# $rounds rounds; small batches need many of them.  Every probe must have a hit.
look_up() {
	rounds=$((runs * ($1 >= 200000 ? 1 : $1 >= 1000 ? 200000 / $1 : 200)))
	figure=$(sql -c "SELECT CASE WHEN hits >= $1 THEN median END
		FROM harmonia_bench_lookup('t_index', $1, $rounds, '$2', variant => '$variant', span => $3)")
}

section_sizes() {
	local width size draw batch
	load
	for width in $widths; do
		for size in "${sizes[@]}"; do
			build_index "$width" "$size" 64
			for draw in $draws; do
				for batch in 1 10 100 1000 10000 100000 1000000 10000000; do
					look_up "$batch" "$draw" 1
					record "batches $width-bit 2^$size" "$batch" "$draw" "$figure" million/s "$rounds"
					[ "$batch" -ne 1000000 ] ||
						record "sizes $width-bit" "$((1 << size))" "$draw" "$figure" million/s "$rounds"
				done
			done
		done
	done
}

section_fanouts() {
	local width size fanout batch
	load
	for width in $widths; do
		for size in $(printf '%s\n' "${sizes[0]}" "${sizes[-1]}" | uniq); do
			for fanout in 8 16 32 64 128; do
				build_index "$width" "$size" "$fanout"
				for batch in 1 1000 1000000; do
					look_up "$batch" uniform 1
					record "fanouts $width-bit 2^$size" "$fanout" "batches of $batch" "$figure" million/s "$rounds"
				done
			done
		done
	done
}

section_ranges() {
	local width size span batch
	load
	for width in $widths; do
		for size in "${sizes[@]}"; do
			build_index "$width" "$size" 64
			for span in 1 2 4 8 16 32 64 128 256 512 1024; do
				batch=$((1000000 / span))
				look_up "$batch" uniform "$span"
				record "ranges $width-bit" "$span" "2^$size" "$figure" million/s "$rounds"
			done
		done
	done
}

# run_tree_bench SECTION: records what the tree engine's benchmark prints.
run_tree_bench() {
	local size flags=() section what system value unit count
	if ! command -v "${CXX:-g++}" >/dev/null; then
		warn "no C++ compiler: $1 is not measured"
		return
	fi
	make -s -C "$root/cuda" NVCC='' build=build/host bench
	for size in "${sizes[@]}"; do
		flags+=(-n "$size")
	done
	"$tree_bench" -d host -q "$((rows < 1000000 ? rows : 1000000))" -r "$runs" "${flags[@]}" "$1" |
		tail -n +2 | while IFS=, read -r _ section what system value unit count _; do
		record "$section" "$what" "$system" "$value" "$unit" "$count"
	done
}

section_steps() { run_tree_bench cpu_steps; }
section_psa() { run_tree_bench cpu_psa; }
section_brute() { run_tree_bench cpu_brute; }

start_server $((rows * 25 / 1000000 + 256)) -c "huge_pages=${HUGE_PAGES:-try}"
run_sections sizes fanouts ranges steps psa brute -- "$@"
