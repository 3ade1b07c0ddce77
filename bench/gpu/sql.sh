#!/bin/bash
# Compares batch lookups on a GPU with those on the CPU and with PostgreSQL's own plans over
# a btree, on a private server.  Prints Markdown tables of medians.
#
# usage: bench/gpu/sql.sh [SECTION...]
#
#   arrays joins break_even resync      all of them if none is named
#
# ROWS (67108864, 2^26), RUNS (5), BTREE_RUNS (3) and DEVICE (on, or host to try the script
# without a GPU) may be set.  BINDIR is that of a PostgreSQL with the extension and the daemon installed;
# otherwise both are built.  Takes some 200 bytes of memory a row and as much disk space.
#
# All data is in shared buffers, one process works, and work_mem is large for all.
# PostgreSQL's time for a join is that of the faster of its plans with nested loops alone and
# with hash joins alone.  Medians of RUNS runs, after one that does not count.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../tools/common.sh"
# shellcheck source-path=SCRIPTDIR/.. source=common.sh
. "$root/bench/common.sh"

rows=${ROWS:-67108864}
runs=${RUNS:-5}
btree_runs=${BTREE_RUNS:-3}
device=${DEVICE:-on}
probes=$((rows * 10 / 67))
sizes=100,300,1000,3000,10000,30000,100000,300000,1000000

milliseconds() {
	sql -c '\timing on' -c "$1" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
}

# times RUNS STATEMENT: milliseconds of several runs in one session, after one that does not
# count if there is more than one.
times() {
	local statements=() run
	for ((run = $1 > 1 ? 0 : 1; run <= $1; run++)); do
		statements+=(-c "$2")
	done
	sql -c '\timing on' "${statements[@]}" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -n "$1"
}

show_only() {
	sql -c "UPDATE pg_index SET indisvalid = indexrelid = '$1'::regclass
		WHERE indexrelid IN ('points_btree'::regclass, 'points_harmonia'::regclass)"
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
			FROM (SELECT DISTINCT unnest('{$sizes,$((probes / 10)),$probes}'::int[]) AS n) s WHERE n <= $probes" \
		-c "SET max_parallel_maintenance_workers = $((jobs / 2))" \
		-c 'CREATE INDEX points_btree ON points (k)' \
		-c 'CREATE INDEX points_harmonia ON points USING harmonia (k)' \
		-c 'VACUUM (ANALYZE, FREEZE)' \
		-c 'CREATE EXTENSION pg_prewarm' \
		-c "SELECT pg_prewarm(x) FROM unnest('{points,points_btree,points_harmonia,probes}'::regclass[]) x" \
		>"$dir/load"
	say "Loading the index's copy"
	sql -c '\timing on' -c "SELECT harmonia_load('points_harmonia')"
}

# query_row NAME QUERY PLAN...: by PostgreSQL's plans, under these settings, on the CPU, on
# the device.
query_row() {
	local name=$1 query=$2 plan best='' time cpu gpu answer expected
	shift 2
	show_only points_btree
	for plan in "$@"; do
		options="-c $plan"
		time=$(times "$btree_runs" "$query" | median)
		if [ -z "$best" ] || awk -v a="$time" -v b="$best" 'BEGIN { exit !(a < b) }'; then
			best=$time
		fi
	done
	show_only points_harmonia
	options=$on_cpu
	expected=$(sql -c "$query")
	cpu=$(times "$runs" "$query" | median)
	options=$on_device
	gpu=$(times "$runs" "$query" | median)
	answer=$(sql -c "$query")
	options=
	[ "$answer" = "$expected" ] || die "wrong answer to $query: $answer, not $expected"
	awk -v name="$name" -v btree="$best" -v cpu="$cpu" -v gpu="$gpu" 'BEGIN {
		printf "| %s | %.4g | %.4g | %.4g | %.1f | %.2f |\n", name, btree, cpu, gpu, btree / gpu, cpu / gpu
	}' | tee -a "$dir/table"
}

section_arrays() {
	local n
	printf '| ms | btree | CPU | device | device, times as fast as btree | as CPU |\n| --- | --- | --- | --- | --- | --- |\n' >>"$dir/table"
	for n in $((probes / 10)) "$probes"; do
		query_row "count(*), = ANY ($n keys)" \
			"SELECT count(*) FROM points WHERE k = ANY ((SELECT keys FROM arrays WHERE n = $n)::bigint[])" \
			enable_seqscan=on
	done
	options=$on_device
	sql -c "EXPLAIN (ANALYZE, COSTS OFF) SELECT count(*) FROM points
		WHERE k = ANY ((SELECT keys FROM arrays WHERE n = $probes)::bigint[])"
	options=
	echo >>"$dir/table"
}

section_joins() {
	local plans=('enable_hashjoin=off -c enable_mergejoin=off' enable_nestloop=off)
	printf '| ms | btree | CPU | device | device, times as fast as btree | as CPU |\n| --- | --- | --- | --- | --- | --- |\n' >>"$dir/table"
	query_row "join, $probes rows, with heap" 'SELECT sum(v) FROM probes JOIN points USING (k)' "${plans[@]}"
	query_row "join, $probes rows, index-only" 'SELECT sum(points.k % 10) FROM probes JOIN points USING (k)' "${plans[@]}"
	query_row "antijoin, $probes rows" \
		'SELECT sum(p) FROM probes WHERE NOT EXISTS (SELECT FROM points WHERE points.k = probes.k + 1)' "${plans[@]}"
	echo >>"$dir/table"
}

# Whole statements, in one session.
section_break_even() {
	local n cpu gpu query
	show_only points_harmonia
	printf '| keys | CPU, ms | device, ms | device / CPU |\n| --- | --- | --- | --- |\n' >>"$dir/table"
	for n in ${sizes//,/ }; do
		[ "$n" -le "$probes" ] || break
		query="SELECT count(*) FROM points WHERE k = ANY ((SELECT keys FROM arrays WHERE n = $n)::bigint[])"
		options=$on_cpu
		cpu=$(times "$runs" "$query" | median)
		options=$on_device
		gpu=$(times "$runs" "$query" | median)
		options=
		awk -v n="$n" -v cpu="$cpu" -v gpu="$gpu" \
			'BEGIN { printf "| %d | %.4g | %.4g | %.2f |\n", n, cpu, gpu, gpu / cpu }' | tee -a "$dir/table"
	done
	echo >>"$dir/table"
}

moved() {
	sql -c "SELECT bytes_to_device, synced_blocks FROM pg_stat_harmonia WHERE indexrelname = 'points_harmonia'"
}

# The first batch after inserts, beside one before them.
section_resync() {
	local n query run before after bytes_before bytes_after
	show_only points_harmonia
	options=$on_device
	query="SELECT count(*) FROM points WHERE k = ANY ((SELECT keys FROM arrays WHERE n = 1000)::bigint[])"
	printf '| random inserts | batch of 1,000 before, ms | the first one after, ms | MB moved | blocks |\n| --- | --- | --- | --- | --- |\n' >>"$dir/table"
	for n in 1000 10000 100000; do
		for ((run = 1; run <= runs; run++)); do
			bytes_before=$(moved)
			sql -c '\timing on' -c "$query" -c "$query" \
				-c "INSERT INTO points SELECT hashint8extended(i, 0), i FROM generate_series(
					$rows + $run * 1000003::bigint + $n * 17, $rows + $run * 1000003::bigint + $n * 18 - 1) i" \
				-c "$query" |
				sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | sed -n '2p;4p' | paste -s -d ' ' >>"$dir/resync"
			bytes_after=$(moved)
		done
		before=$(awk '{ print $1 }' "$dir/resync" | median)
		after=$(awk '{ print $2 }' "$dir/resync" | median)
		awk -v n="$n" -v before="$before" -v after="$after" -v from="$bytes_before" -v to="$bytes_after" 'BEGIN {
			split(from, f, "|"); split(to, t, "|")
			printf "| %d | %.4g | %.4g | %.4g | %d |\n", n, before, after, (t[1] - f[1]) / 1e6, t[2] - f[2]
		}' | tee -a "$dir/table"
		rm "$dir/resync"
	done
	options=
	echo >>"$dir/table"
}

start_server $((rows * 150 / 1000000 + 512)) -c work_mem=1GB -c max_parallel_workers_per_gather=0 \
	-c shared_preload_libraries=harmonia -c harmonia.gpu="$device"
load

sections=("$@")
[ $# -gt 0 ] || sections=(arrays joins break_even resync)
for section in "${sections[@]}"; do
	say "Section $section"
	"section_$section"
done

say "$(sql -c 'SELECT version()'), $(nproc) processors, $rows rows, medians of $runs runs"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || true
cat "$dir/table"
