#!/bin/bash
# Compares batch lookups on a GPU with those on the CPU and with PostgreSQL's own plans over
# a btree, on a private server.  Prints Markdown tables of medians.
#
# usage: bench/gpu/sql.sh [SECTION...]
#
#   arrays joins resync mixes      all of them if none is named
#
# ROWS (67108864, 2^26), RUNS (5), BTREE_RUNS (3; 0 leaves PostgreSQL's plans out) and
# DEVICE (on, or host to try the script without a GPU) may be set, and what bench/common.sh
# names.  Takes some 200 bytes of memory a row and as much disk space.
#
# All data is in shared buffers, one process works, and work_mem is large for all.
# PostgreSQL's time for a join is that of the faster of its plans with nested loops alone and
# with hash joins alone, "harmonia" is a lookup on the CPU, and "GPU" one on the device.
# Medians of RUNS runs, after one that does not count.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/common.sh"
# shellcheck source-path=SCRIPTDIR/.. source=common.sh
. "$root/bench/common.sh"

start_suite device 67108864 5 0
btree_runs=${BTREE_RUNS:-3}
device=${DEVICE:-on}
probes=$((rows * 10 / 67))
sizes=100,300,1000,3000,10000,30000,100000,300000,1000000,10000000
# Of a transfer to the device, from PostgreSQL's memory through the daemon's.
bytes_a_ms=54000000

# times RUNS STATEMENT: milliseconds of several runs in one session, after one that does not
# count if there is more than one.
times() {
	local statements=() run
	for ((run = $1 > 1 ? 0 : 1; run <= $1; run++)); do
		statements+=("$2")
	done
	timings "${statements[@]}" | tail -n "$1"
}

on_cpu='-c harmonia.enable_device=off'
on_device='-c harmonia.force_device=on'

load() {
	local jobs job
	jobs=$(nproc)
	say "Loading $rows rows and $probes probes"
	sql -c 'CREATE TABLE points (k bigint, v int)' \
		-c 'CREATE TABLE probes (k bigint, p int)' \
		-c 'CREATE TABLE arrays (n int, keys bigint[])'
	for ((job = 0; job < jobs; job++)); do
		sql -c "INSERT INTO points SELECT hashint8extended(i, 0), i
			FROM generate_series($rows * $job / $jobs + 1::bigint, $rows * ($job + 1) / $jobs) i" &
	done
	wait
	sql -c "INSERT INTO probes SELECT hashint8extended(1 + (i * 7919) % $rows, 0), i
			FROM generate_series(1::bigint, $probes) i" \
		-c "INSERT INTO arrays SELECT n, (SELECT array_agg(k) FROM probes WHERE p <= n)
			FROM (SELECT DISTINCT unnest('{$sizes}'::int[]) AS n) s WHERE n <= $probes" \
		-c "SET max_parallel_maintenance_workers = $((jobs / 2))" \
		-c 'CREATE INDEX points_btree ON points (k)' \
		-c 'CREATE INDEX points_harmonia ON points USING harmonia (k)' \
		-c 'VACUUM (ANALYZE, FREEZE)' \
		-c 'CREATE EXTENSION pg_prewarm' \
		-c "SELECT pg_prewarm(x) FROM unnest('{points,points_btree,points_harmonia,probes}'::regclass[]) x" \
		>"$dir/load"
	say "Loading the index's copy"
	timings "SELECT harmonia_load('points_harmonia')" | note GPU ms
	record_noted 'copy of the index' load
}

# query_row SECTION CASE QUERY PLAN...: by PostgreSQL's plans, under these settings, on the CPU,
# on the device.
query_row() {
	local section=$1 case=$2 query=$3 plan best='' time answer expected
	shift 3
	show_only points points_btree
	: >"$dir/best"
	for plan in "$@"; do
		[ "$btree_runs" -gt 0 ] || break
		options="-c $plan"
		times "$btree_runs" "$query" >"$dir/plan"
		time=$(median <"$dir/plan")
		if [ -z "$best" ] || awk -v a="$time" -v b="$best" 'BEGIN { exit !(a < b) }'; then
			best=$time
			mv "$dir/plan" "$dir/best"
		fi
	done
	[ ! -s "$dir/best" ] || note 'best plan' ms <"$dir/best"
	show_only points points_harmonia
	options=$on_cpu
	expected=$(sql -c "$query")
	times "$runs" "$query" | note harmonia ms
	options=$on_device
	times "$runs" "$query" | note GPU ms
	answer=$(sql -c "$query")
	options=
	[ "$answer" = "$expected" ] || die "wrong answer to $query: $answer, not $expected"
	record_noted "$section" "$case"
}

# Whole statements, each kind in one session, to where the device begins to pay and beyond.
section_arrays() {
	local n
	for n in $(sql -c 'SELECT n FROM arrays ORDER BY n'); do
		query_row 'count(*) by number of keys in = ANY' "$n" \
			"SELECT count(*) FROM points WHERE k = ANY ((SELECT keys FROM arrays WHERE n = $n)::bigint[])" enable_seqscan=on
	done
	options=$on_device
	sql -c "EXPLAIN (ANALYZE, COSTS OFF) SELECT count(*) FROM points
		WHERE k = ANY ((SELECT keys FROM arrays ORDER BY n DESC LIMIT 1)::bigint[])"
	options=
}

section_joins() {
	local plans=('enable_hashjoin=off -c enable_mergejoin=off' enable_nestloop=off)
	query_row joins 'inner with heap' 'SELECT sum(v) FROM probes JOIN points USING (k)' "${plans[@]}"
	query_row joins 'inner index-only' 'SELECT sum(points.k % 10) FROM probes JOIN points USING (k)' "${plans[@]}"
	query_row joins 'anti' \
		'SELECT sum(p) FROM probes WHERE NOT EXISTS (SELECT FROM points WHERE points.k = probes.k + 1)' "${plans[@]}"
}

# What has been sent to the device: bytes and blocks.
sent() {
	sql -F ' ' -c "SELECT bytes_to_device, synced_blocks FROM pg_stat_harmonia WHERE indexrelname = 'points_harmonia'"
}

# How much longer than one before them the first batch after inserts takes, and how long that
# may be: 1.5 times what it takes to transfer what was changed, and 2 ms.  "page bound" counts
# whole pages as changed, "bound" the lines of them that were sent.
section_resync() {
	local n query run from to
	show_only points points_harmonia
	options=$on_device
	query="SELECT count(*) FROM points WHERE k = ANY ((SELECT keys FROM arrays WHERE n = 1000)::bigint[])"
	for n in 1000 10000 100000; do
		for ((run = 1; run <= runs; run++)); do
			from=$(sent)
			timings "$query" "$query" \
				"INSERT INTO points SELECT hashint8extended(i, 0), i FROM generate_series(
					$rows + $run * 1000003::bigint + $n * 17, $rows + $run * 1000003::bigint + $n * 18 - 1) i" \
				"$query" >"$dir/times"
			to=$(sent)
			awk 'NR == 2 { before = $1 } NR == 4 { print $1 - before }' "$dir/times" | note GPU ms
			echo "$from $to" | awk -v speed="$bytes_a_ms" '{ print 1.5 * ($3 - $1) / speed + 2 }' | note bound ms
			echo "$from $to" | awk -v speed="$bytes_a_ms" '{ print 1.5 * 8192 * ($4 - $2) / speed + 2 }' |
				note 'page bound' ms
			echo "$from $to" | awk '{ print ($3 - $1) / 1e6 }' | note GPU 'MB sent'
			echo "$from $to" | awk '{ print $4 - $2 }' | note GPU blocks
		done
		record_noted 're-sync by number of inserts' "$n"
	done
	options=
}

# Mixes of changes and look-ups as in bench/updates.sh, in a table of three tenths of the rows;
# each batch of look-ups finds the copy out of date, by the changes of its own round.
section_mixes() {
	local percent run round=0 count=$((rows * 3 / 10))
	sql -c "CREATE TABLE mixed AS
			SELECT hashint8extended(i, 0) AS k, i AS id FROM generate_series(1::bigint, $count) i" \
		-c 'CREATE INDEX mixed_harmonia ON mixed USING harmonia (k)' -c 'VACUUM ANALYZE mixed' \
		-c "SELECT harmonia_load('mixed_harmonia')" >>"$dir/load"
	for percent in 5 20 50 80 95; do
		for ((run = 0; run < runs; run++)); do
			round=$((round + 2))
			options=$on_cpu
			mix_round mixed "$count" "$percent" "$round" | note harmonia rows/s
			options=$on_device
			sql -c "SELECT harmonia_load('mixed_harmonia')" >>"$dir/load"
			mix_round mixed "$count" "$percent" "$((round + 1))" | note GPU rows/s
		done
		record_noted 'mixes by per cent of changes' "$percent"
	done
	options=
}

[ -n "${BINDIR:-}" ] || make -s -j "$(nproc)" -C "$root/cuda"
start_server $((rows * 150 / 1000000 + 512)) -c work_mem=1GB -c max_parallel_workers_per_gather=0 \
	-c shared_preload_libraries=harmonia -c harmonia.gpu="$device"
load

run_sections arrays joins resync mixes -- "$@"
