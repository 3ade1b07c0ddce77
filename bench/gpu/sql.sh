#!/bin/bash
# Compares batch lookups on a GPU with those on the CPU, and with PostgreSQL's own plans
# over a btree, on a private server.  Prints Markdown tables of medians.
#
# usage: bench/gpu/sql.sh [SECTION...]
#
#   arrays joins wide resync mixes      default: all of them
#
# Environment: ROWS (67108864, 2^26), RUNS (5), BTREE_RUNS (3; 0 skips PostgreSQL's
# plans), DEVICE (on; host tries the script without a GPU), RESYNC_AHEAD (on;
# harmonia.resync_ahead), and the variables of bench/common.sh.  Takes about 200 bytes of memory
# and as much disk space for each row.
#
# All data is in shared buffers, each query has one process, and work_mem is large for
# all systems.  PostgreSQL's time for a join is that of the faster of two plans: with
# nested loops alone, and with hash joins alone.  "harmonia" is a lookup on the CPU,
# "GPU" one on the device.  Times are medians of RUNS runs after a warm-up run.

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
# Speed of a transfer from PostgreSQL's memory through the daemon's to the device.
bytes_a_ms=54000000
table=points

# times RUNS STATEMENT: prints the milliseconds of several runs in one session.  If
# there is more than one run, a warm-up run comes first.
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
	sql -c "INSERT INTO probes SELECT hashint8extended(1 + (hashint8extended(i, 1) & 4611686018427387903) % $rows, 0), i
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

# query_row SECTION CASE QUERY PLAN...: measures a query of $table with PostgreSQL's plans under
# each of the settings PLAN, on the CPU, and on the device.
query_row() {
	local section=$1 case=$2 query=$3 plan best='' time answer expected
	shift 3
	show_only "$table" "${table}_btree"
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
	show_only "$table" "${table}_harmonia"
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

# Whole statements with more and more keys, to the size from which the device pays and
# beyond.
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
	query_row joins 'plain scan of the probes' 'SELECT sum(p) FROM probes'
	query_row joins 'count(*)' 'SELECT count(*) FROM probes JOIN points USING (k)' "${plans[@]}"
	query_row joins 'inner with heap' 'SELECT sum(v) FROM probes JOIN points USING (k)' "${plans[@]}"
	query_row joins 'inner index-only with an outer column' \
		'SELECT sum(p) FROM probes JOIN points USING (k)' "${plans[@]}"
	query_row joins 'inner index-only with the key' 'SELECT max(points.k) FROM probes JOIN points USING (k)' "${plans[@]}"
	query_row joins 'inner index-only with an expression' 'SELECT sum(points.k % 10) FROM probes JOIN points USING (k)' "${plans[@]}"
	query_row joins 'semi' \
		'SELECT sum(p) FROM probes WHERE EXISTS (SELECT FROM points WHERE points.k = probes.k)' "${plans[@]}"
	query_row joins 'anti' \
		'SELECT sum(p) FROM probes WHERE NOT EXISTS (SELECT FROM points WHERE points.k = probes.k + 1)' "${plans[@]}"
}

# Keys of 128 bits, in tables of a quarter of the rows: uuids, and two columns, the ids of
# tenants with 1,000 rows each.
section_wide() {
	local plans=('enable_hashjoin=off -c enable_mergejoin=off' enable_nestloop=off) count=$((rows / 4)) wanted=$((probes / 4))
	sql -c "CREATE TABLE uuids AS SELECT md5(i::text)::uuid AS k, i::int AS v FROM generate_series(1::bigint, $count) i" \
		-c "CREATE TABLE orders AS SELECT (i / 1000)::int AS tenant, i AS id, i::int AS v FROM generate_series(1::bigint, $count) i" \
		-c "CREATE TABLE wanted AS SELECT md5(r::text)::uuid AS k, (r / 1000)::int AS tenant, r AS id, i::int AS p
			FROM (SELECT i, 1 + (hashint8extended(i, 1) & 4611686018427387903) % $count AS r FROM generate_series(1::bigint, $wanted) i) s" \
		-c 'CREATE INDEX uuids_btree ON uuids (k)' -c 'CREATE INDEX orders_btree ON orders (tenant, id)' \
		-c 'CREATE INDEX uuids_harmonia ON uuids USING harmonia (k)' -c 'CREATE INDEX orders_harmonia ON orders USING harmonia (tenant, id)' \
		-c 'VACUUM (ANALYZE, FREEZE) uuids, orders, wanted' \
		-c "SELECT harmonia_load('uuids_harmonia'), harmonia_load('orders_harmonia')" >>"$dir/load"
	table=uuids
	query_row wide 'uuid count(*)' 'SELECT count(*) FROM wanted JOIN uuids USING (k)' "${plans[@]}"
	query_row wide 'uuid inner with heap' 'SELECT sum(v) FROM wanted JOIN uuids USING (k)' "${plans[@]}"
	query_row wide 'uuid inner index-only with an outer column' 'SELECT sum(p) FROM wanted JOIN uuids USING (k)' "${plans[@]}"
	table=orders
	query_row wide 'int and bigint count(*)' 'SELECT count(*) FROM wanted JOIN orders USING (tenant, id)' "${plans[@]}"
	query_row wide 'int and bigint inner with heap' 'SELECT sum(v) FROM wanted JOIN orders USING (tenant, id)' "${plans[@]}"
	table=points
}

# Prints the number of bytes and blocks that have been sent to the device.
sent() {
	sql -F ' ' -c "SELECT bytes_to_device, synced_blocks FROM pg_stat_harmonia WHERE indexrelname = 'points_harmonia'"
}

# resync_row SECTION N KEY: how much longer the first batch after N inserts takes than the batch
# before them, and the bound for that: 1.5 times the transfer of what has changed, plus 0.5 ms.
# "page bound" counts whole changed pages, "bound" what was sent.  KEY is an expression of i,
# which is another number for each row that is ever inserted.
resync_row() {
	local n=$2 query run from to
	query="SELECT count(*) FROM points WHERE k = ANY ((SELECT keys FROM arrays WHERE n = 1000)::bigint[])"
	for ((run = 1; run <= runs; run++)); do
		from=$(sent)
		timings "$query" "$query" \
			"INSERT INTO points SELECT $3, i FROM generate_series($inserted + 1::bigint, $inserted + $n) i" \
			"$query" >"$dir/times"
		to=$(sent)
		inserted=$((inserted + n))
		awk 'NR == 2 { before = $1 } NR == 4 { print $1 - before }' "$dir/times" | note GPU ms
		echo "$from $to" | awk -v speed="$bytes_a_ms" '{ print 1.5 * ($3 - $1) / speed + 0.5 }' | note bound ms
		echo "$from $to" | awk -v speed="$bytes_a_ms" '{ print 1.5 * 8192 * ($4 - $2) / speed + 0.5 }' |
			note 'page bound' ms
		echo "$from $to" | awk '{ print ($3 - $1) / 1e6 }' | note GPU 'MB sent'
		echo "$from $to" | awk '{ print $4 - $2 }' | note GPU blocks
	done
	record_noted "$1" "$n"
}

# Random inserts, which split few leaves of an index that was built a while ago; and 100
# neighbours in each of N / 100 places, which split one there.
section_resync() {
	local n inserted=$rows
	show_only points points_harmonia
	options=$on_device
	for n in 100 1000 10000 100000; do
		resync_row 're-sync by number of inserts' "$n" 'hashint8extended(i, 0)'
	done
	for n in 100 1000 10000 100000; do
		resync_row 're-sync by number of inserts with splits' "$n" 'hashint8extended(i / 100, 7) + i % 100'
	done
	options=
}

# Mixes of changes and look-ups as in bench/updates.sh, in a table of three tenths of
# the rows.  For each batch of look-ups the changes of its own round have made the copy
# out of date.
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
	-c shared_preload_libraries=harmonia -c harmonia.gpu="$device" -c harmonia.resync_ahead="${RESYNC_AHEAD:-on}"
load

run_sections arrays joins wide resync mixes -- "$@"
