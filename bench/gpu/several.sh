#!/bin/bash
# Measures what a second GPU adds: clients that look batches up with one device and with two, in turns.  Prints Markdown
# tables.
#
# usage: bench/gpu/several.sh [SECTION...]
#
#   clients    sessions of a private server with all batches on the device
#   daemon     clients of the daemon that have their keys already and do nothing with hits (daemon.c)
#   default: both
#
# Environment: ROWS (16777216, 2^24), SECONDS_A_RUN (5), RUNS (3), DEVICE (on; host tries the script without a GPU, with
# two host devices), and the variables of bench/common.sh.  Takes about 300 bytes of memory and as much disk
# space for each row.
#
#   SIZES      numbers of keys ("1000 100000 1000000")
#   CLIENTS    numbers of clients ("1 8")
#
# The section daemon has sizes and clients of its own.
#
# The target is 1.8 times the throughput of one device with 8 clients.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/common.sh"
# shellcheck source-path=SCRIPTDIR/.. source=common.sh
. "$root/bench/common.sh"

start_suite several 16777216 3 5
read -r -a sizes <<<"${SIZES:-1000 100000 1000000}"
read -r -a counts <<<"${CLIENTS:-1 8}"
# Arrays of each size; clients choose one at random.
arrays=8
options=

load() {
	local n
	say "Loading $rows rows"
	sql -c 'CREATE TABLE points (k bigint, v int)' \
		-c 'CREATE TABLE arrays (n int, number int, keys bigint[])' \
		-c 'ALTER TABLE arrays ALTER keys SET STORAGE EXTERNAL' \
		-c "INSERT INTO points SELECT hashint8extended(i, 0), i FROM generate_series(1::bigint, $rows) i"
	for n in "${sizes[@]}"; do
		sql -c "INSERT INTO arrays SELECT $n, number, array_agg(hashint8extended(
				1 + (hashint8extended(i, number) & 4611686018427387903) % $rows, 0))
			FROM generate_series(1, $arrays) number, generate_series(1::bigint, $n) i GROUP BY number"
	done
	sql -c 'CREATE INDEX points_k ON points USING harmonia (k)' -c 'VACUUM (ANALYZE, FREEZE)' -c 'CHECKPOINT' \
		-c 'CREATE EXTENSION pg_prewarm' \
		-c "SELECT pg_prewarm(x) FROM unnest('{points,points_k,arrays}'::regclass[]) x" >"$dir/load"
}

# use_devices LIST NAME: restarts the daemon with these devices, whose name contains NAME, and makes the copy.
use_devices() {
	local tries
	sql -c "ALTER SYSTEM SET harmonia.gpu_devices = '$1'" -c 'SELECT pg_reload_conf()' >"$dir/load"
	for ((tries = 0; tries < 600; tries++)); do
		[ "$(sql -c "SELECT state = 'up' AND (name LIKE '2 x %') = $2 FROM harmonia_device()")" = t ] && break
		sleep 0.1
	done
	sql -c "SELECT harmonia_load('points_k')" >"$dir/load"
}

measure() {
	local run clients keys cell system figure
	for ((run = 0; run < runs; run++)); do
		for system in 'one device' 'two devices'; do
			if [ "$system" = 'one device' ]; then use_devices 0 false; else use_devices 0,1 true; fi
			for clients in "${counts[@]}"; do
				for keys in "${sizes[@]}"; do
					transactions_a_second "$clients" "\\set number random(1, $arrays)" \
						"SELECT count(*) FROM points WHERE k = ANY ((SELECT keys FROM arrays WHERE n = $keys AND number = :number)::bigint[]);" |
						while read -r figure; do
							printf '%s\t%s\n' "$system" "$figure" >>"$dir/cell $clients clients $keys keys"
						done
				done
			done
		done
	done
	for clients in "${counts[@]}"; do
		for keys in "${sizes[@]}"; do
			cell="$clients clients $keys keys"
			for system in 'one device' 'two devices'; do
				awk -F '\t' -v s="$system" '$1 == s { print $2 }' "$dir/cell $cell" | sort -g |
					awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }' >"$dir/$system"
				record 'one and two devices' "$cell" "$system" "$(cat "$dir/$system")" queries/s "$runs"
			done
			record 'two devices beside one' "$cell" 'two devices' \
				"$(paste "$dir/one device" "$dir/two devices" | awk '{ print $2 / $1 }')" times "$runs"
		done
	done
}

section_daemon() {
	local device=cuda build=build clients keys one two make=(make -s -j "$(nproc)" -C "$root/cuda")
	[ "${DEVICE:-}" != host ] || device=host build=build/host make+=(NVCC='' build=build/host)
	"${make[@]}" "$build/harmonia_gpud" "$build/bench_daemon"
	"$root/cuda/$build/bench_daemon" "$root/cuda/$build/harmonia_gpud" "$device" "$rows" "$seconds_a_run" "$runs" >"$dir/daemon"
	grep -v '^#' "$dir/daemon" >"$dir/rates"
	while read -r clients keys one two; do
		record 'one and two devices; the daemon alone' "$clients clients $keys keys" 'one device' "$one" batches/s "$runs"
		record 'one and two devices; the daemon alone' "$clients clients $keys keys" 'two devices' "$two" batches/s "$runs"
		record 'two devices beside one; the daemon alone' "$clients clients $keys keys" 'two devices' \
			"$(awk -v one="$one" -v two="$two" 'BEGIN { print two / one }')" times "$runs"
	done <"$dir/rates"
}

section_clients() {
	load
	measure
}

[ -n "${BINDIR:-}" ] || make -s -j "$(nproc)" -C "$root/cuda"
start_server $((rows * 250 / 1000000 + 1024)) -c work_mem=1GB -c max_parallel_workers_per_gather=0 \
	-c max_connections=200 -c shared_preload_libraries=harmonia -c harmonia.gpu="${DEVICE:-on}" \
	-c harmonia.force_device=on
run_sections clients daemon -- "$@"
