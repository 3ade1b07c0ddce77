#!/bin/bash
# Measures whether the choice between the CPU and a GPU is right under load: clients that look
# batches up, alone and beside writers of single rows, on a private server.  Prints Markdown
# tables.
#
# usage: bench/gpu/load.sh [SECTION...]
#
#   alone writers      default: both
#
# Environment: ROWS (16777216, 2^24), SECONDS_A_RUN (2, for each cell of the grid), RUNS (1),
# DEVICE (on; host tries the script without a GPU), and the variables of bench/common.sh.  Takes
# about 300 bytes of memory and as much disk space for each row.
#
#   SIZES      numbers of keys ("300 1000 10000 100000 1000000"); 10000000 works, too
#   CLIENTS    numbers of clients ("1 4 16")
#   WRITERS    number of writers (4)
#   SYSTEMS    the order in which the three are measured ("CPU device automatic"); batches that are forced teach the
#              choice what they cost, so that it knows less if "automatic" is the first
#
# "CPU" has all batches on the CPU, "device" all on the device, "automatic" is what users have; the remark of its last run
# says how many of its batches the device got.  Sections "... beside the better one" have automatic's share of the larger of the other two.  All
# data is in shared buffers.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/common.sh"
# shellcheck source-path=SCRIPTDIR/.. source=common.sh
. "$root/bench/common.sh"

start_suite load 16777216 1 2
read -r -a sizes <<<"${SIZES:-300 1000 10000 100000 1000000}"
read -r -a counts <<<"${CLIENTS:-1 4 16}"
writers=${WRITERS:-4}
read -r -a systems <<<"${SYSTEMS:-CPU device automatic}"
# Sections say what comes first if that is not the CPU.
first=''
[ "${systems[0]}" = CPU ] || first=" (${systems[0]} first)"
# Arrays of each size; clients choose one at random.
arrays=4

declare -A settings=(
	[CPU]='-c harmonia.enable_device=off'
	[device]='-c harmonia.force_device=on'
	[automatic]='')

load() {
	local jobs job n
	jobs=$(nproc)
	say "Loading $rows rows"
	sql -c 'CREATE TABLE points (k bigint, v int)' \
		-c 'CREATE TABLE arrays (n int, number int, keys bigint[])' \
		-c 'ALTER TABLE arrays ALTER keys SET STORAGE EXTERNAL'
	for ((job = 0; job < jobs; job++)); do
		sql -c "INSERT INTO points SELECT hashint8extended(i, 0), i
			FROM generate_series($rows * $job / $jobs + 1::bigint, $rows * ($job + 1) / $jobs) i" &
	done
	wait
	for n in "${sizes[@]}"; do
		sql -c "INSERT INTO arrays SELECT $n, number, array_agg(hashint8extended(
				1 + (hashint8extended(i, number) & 4611686018427387903) % $rows, 0))
			FROM generate_series(1, $arrays) number, generate_series(1::bigint, $n) i GROUP BY number" &
	done
	wait
	sql -c "SET max_parallel_maintenance_workers = $((jobs / 2))" \
		-c 'CREATE INDEX points_k ON points USING harmonia (k)' \
		-c 'VACUUM (ANALYZE, FREEZE)' -c 'CHECKPOINT' \
		-c 'CREATE EXTENSION pg_prewarm' \
		-c "SELECT pg_prewarm(x) FROM unnest('{points,points_k,arrays}'::regclass[]) x" \
		-c "SELECT harmonia_load('points_k')" >"$dir/load"
}

# cell SECTION CLIENTS KEYS: measures the three in turn.
cell() {
	local section=$1 clients=$2 keys=$3 run system figure remark=''
	for ((run = 0; run < runs; run++)); do
		for system in "${systems[@]}"; do
			options=${settings[$system]}
			sql -c "SELECT harmonia_stat_reset('points_k')" >"$dir/reset"
			transactions_a_second "$clients" "\\set number random(1, $arrays)" \
				"SELECT count(*) FROM points WHERE k = ANY ((SELECT keys FROM arrays WHERE n = $keys AND number = :number)::bigint[]);" |
				note "$system" queries/s
			[ "$system" != automatic ] || remark=$(sql -c "SELECT round(100.0 * device_batches / greatest(batches, 1), 1) ||
				' % on the device' FROM pg_stat_harmonia WHERE indexrelid = 'points_k'::regclass")
		done
	done
	options=
	summary median >"$dir/cell"
	while IFS=$'\t' read -r system _ figure _; do
		record "$section" "$clients clients $keys keys" "$system" "$figure" queries/s "$runs" \
			"$([ "$system" != automatic ] || echo "$remark")"
	done <"$dir/cell"
	awk -F '\t' '{ v[$1] = $3 } END { print v["automatic"] / (v["CPU"] > v["device"] ? v["CPU"] : v["device"]) }' \
		"$dir/cell" >"$dir/share"
	cat "$dir/share" >>"$dir/shares"
	record "$section: beside the better one" "$clients clients $keys keys" automatic "$(cat "$dir/share")" times "$runs"
}

grid() {
	local section=$1 clients keys
	: >"$dir/shares"
	for keys in "${sizes[@]}"; do
		for clients in "${counts[@]}"; do
			cell "$section" "$clients" "$keys"
		done
	done
	record "$section: beside the better one" 'worst cell' automatic "$(sort -g "$dir/shares" | head -n 1)" times "$runs"
}

section_alone() {
	grid "clients alone$first"
}

section_writers() {
	local writer rows_before rows_after start=$SECONDS
	rows_before=$(sql -c 'SELECT count(*) FROM points')
	printf '%s\n' '\set r random(1, 9000000000000000)' 'INSERT INTO points VALUES (hashint8extended(:r, 1), 0);' >"$dir/writer"
	pgbench -n -M prepared -c "$writers" -j "$writers" -T 100000 -f "$dir/writer" >"$dir/writers" 2>&1 &
	writer=$!
	grid "clients beside $writers writers$first"
	kill "$writer"
	wait "$writer" || true
	rows_after=$(sql -c 'SELECT count(*) FROM points')
	say "Writers inserted $(((rows_after - rows_before) / (SECONDS - start + 1))) rows a second"
	sql -c "SELECT harmonia_check('points_k')" >"$dir/checked"
}

[ -n "${BINDIR:-}" ] || make -s -j "$(nproc)" -C "$root/cuda"
start_server $((rows * 250 / 1000000 + 1024)) -c work_mem=1GB -c max_parallel_workers_per_gather=0 \
	-c max_connections=200 -c synchronous_commit=off -c shared_preload_libraries=harmonia -c harmonia.gpu="${DEVICE:-on}"
load
run_sections alone writers -- "$@"
