#!/bin/bash
# Compares lookup scans and lookup joins with the best of PostgreSQL's own plans over
# a btree, on a private server.  Prints a Markdown table of medians.
#
# usage: bench/lookup.sh [SECTION...]
#
#   arrays joins few      all of them if none is named
#
# ROWS (20000000), PROBES (1000000), RUNS (5) and SECONDS_A_RUN (5, for pgbench) may
# be set.  Takes some 200 bytes of memory a row and as much disk space.
#
# All data is in shared buffers, one process works, and work_mem is large for both
# sides.  Each run is a session that runs the query twice: the second time counts, and
# a column of its own compares the first times, in which a session also finds its way
# to all pages that it has not read yet.  PostgreSQL's time is that of its fastest plan:
# what the planner takes, nested loops alone or hash joins alone, whichever was the
# fastest in the first run.  pg_index.indisvalid hides the index of the other side.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

rows=${ROWS:-20000000}
probes=${PROBES:-1000000}
runs=${RUNS:-5}
seconds_a_run=${SECONDS_A_RUN:-5}

# Plans of PostgreSQL's own.
plans=('enable_seqscan=on' 'enable_hashjoin=off -c enable_mergejoin=off' 'enable_nestloop=off')

# Milliseconds of a query, the first and the second time in a session.
milliseconds() {
	sql -c '\timing on' -c "$1" -c "$1" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | paste -s -d ' '
}

show_only() {
	sql -c "UPDATE pg_index SET indisvalid = indexrelid = '$1'::regclass
		WHERE indexrelid IN ('points_btree'::regclass, 'points_harmonia'::regclass)"
}

# row NAME PLAN BTREE HARMONIA TARGET [FIRST_BTREE FIRST_HARMONIA]: ratios say how many
# times as fast.
row() {
	awk -v name="$1" -v plan="$2" -v btree="$3" -v harmonia="$4" -v target="$5" \
		-v first_btree="${6:-}" -v first_harmonia="${7:-}" 'BEGIN {
		first = first_btree == "" ? "" : sprintf("%.2f", first_btree / first_harmonia)
		printf "| %s | %s | %.4g | %.4g | %.2f | %s | %s |\n",
			name, plan, btree, harmonia, btree / harmonia, first, target
	}' | tee -a "$dir/table"
}

column_median() {
	awk -v column="$2" '{ print $column }' "$1" | median
}

# What the plan for a query is called.
plan_of() {
	sql -c "EXPLAIN (COSTS OFF) $1" | sed '/InitPlan/,+1d' |
		sed -n 's/^[ >-]*\(Custom Scan ([A-Za-z]*)\|Hash [A-Za-z ]*Join\|Hash Join\|Nested Loop[A-Za-z ]*\|Merge [A-Za-z ]*Join\|Index Only Scan\|Index Scan\|Bitmap Heap Scan\|Seq Scan\).*/\1/p' |
		head -n 1
}

# query_row NAME QUERY TARGET
query_row() {
	local name=$1 query=$2 target=$3 run plan best='' best_plan answer expected
	rm -f "$dir"/runs.*
	show_only points_btree
	for plan in "${plans[@]}"; do
		options="-c $plan"
		milliseconds "$query" >"$dir/plan"
		if [ -z "$best" ] || awk -v a="$(column_median "$dir/plan" 2)" \
			-v b="$(column_median "$dir/runs.btree" 2)" 'BEGIN { exit !(a < b) }'; then
			best=$plan
			mv "$dir/plan" "$dir/runs.btree"
		fi
	done
	options="-c $best"
	best_plan=$(plan_of "$query")
	expected=$(sql -c "$query")
	for ((run = 0; run < runs; run++)); do
		if ((run > 0)); then
			show_only points_btree
			options="-c $best"
			milliseconds "$query" >>"$dir/runs.btree"
		fi
		options=
		show_only points_harmonia
		milliseconds "$query" >>"$dir/runs.harmonia"
	done

	answer=$(sql -c "$query")
	[ "$answer" = "$expected" ] || die "wrong answer to $query: $answer, not $expected"
	case $(plan_of "$query") in
		Custom*) ;;
		*) say "Not planned as a lookup: $query" ;;
	esac
	row "$name" "$best_plan" "$(column_median "$dir/runs.btree" 2)" "$(column_median "$dir/runs.harmonia" 2)" "$target" \
		"$(column_median "$dir/runs.btree" 1)" "$(column_median "$dir/runs.harmonia" 1)"
}

load() {
	say "Loading $rows rows and $probes probes"
	sql -c "CREATE TABLE points AS
			SELECT hashint8extended(i, 0) AS k, i::int AS v FROM generate_series(1::bigint, $rows) i" \
		-c "CREATE TABLE probes AS
			SELECT hashint8extended(1 + (i * 7919) % $rows, 0) AS k, i::int AS p
			FROM generate_series(1::bigint, $probes) i" \
		-c "CREATE TABLE half AS
			SELECT hashint8extended(1 + (i * 7919) % ($rows * 2::bigint), 0) AS k, i::int AS p
			FROM generate_series(1::bigint, $probes) i" \
		-c 'CREATE TABLE arrays AS SELECT array_agg(k) AS keys FROM probes' \
		-c 'CREATE INDEX points_btree ON points (k)' \
		-c 'CREATE INDEX points_harmonia ON points USING harmonia (k)' \
		-c 'VACUUM (ANALYZE, FREEZE)' \
		-c 'CREATE EXTENSION pg_prewarm' \
		-c "SELECT pg_prewarm(x) FROM unnest('{points,points_btree,points_harmonia,probes,half}'::regclass[]) x" \
		>"$dir/load"
}

section_arrays() {
	local array='ANY ((SELECT keys FROM arrays)::bigint[])'
	query_row "count(*), = ANY ($probes keys)" "SELECT count(*) FROM points WHERE k = $array" 12
	query_row "sum of a column, = ANY ($probes keys)" "SELECT sum(v) FROM points WHERE k = $array" 4
}

section_joins() {
	query_row "join, $probes rows, with heap" \
		'SELECT sum(v) FROM probes JOIN points USING (k)' 6
	query_row "join, $probes rows, index-only" \
		'SELECT sum(points.k % 10) FROM probes JOIN points USING (k)' 8
	query_row "left join, $probes rows, half without a match" \
		'SELECT sum(v), count(*) FROM half LEFT JOIN points USING (k)' ''
	query_row "semijoin: probes that exist" \
		'SELECT sum(p) FROM half WHERE EXISTS (SELECT FROM points WHERE points.k = half.k)' 6
	query_row "antijoin: probes that do not exist" \
		'SELECT sum(p) FROM half WHERE NOT EXISTS (SELECT FROM points WHERE points.k = half.k)' 6
	query_row "k IN (SELECT $probes keys), with heap" \
		'SELECT sum(v) FROM points WHERE k IN (SELECT k FROM probes)' ''
	query_row "range join, 100,000 ranges of some 10 rows" \
		"SELECT count(*) FROM (SELECT k AS low, k / 2 + (k / 2 + 2^63 / $rows * 10)::bigint AS high
			FROM probes WHERE p <= 100000 AND k BETWEEN 0 AND 2^62 OFFSET 0) r
		JOIN points ON k BETWEEN low AND high" ''
}

# latency_row NAME STATEMENT TARGET: prepared, by one client.
latency_row() {
	local name=$1 statement=$2 target=$3 run method
	printf '%s\n' "\\set i random(1, $rows)" "$statement" >"$dir/script"
	for ((run = 0; run < runs; run++)); do
		for method in btree harmonia; do
			show_only "points_$method"
			pgbench -n -M prepared -T "$seconds_a_run" -f "$dir/script" |
				sed -n 's/^latency average = \([0-9.]*\) ms.*/\1/p' >>"$dir/$method.latency"
		done
	done
	row "$name" prepared "$(median <"$dir/btree.latency")" "$(median <"$dir/harmonia.latency")" "$target"
	rm "$dir"/*.latency
}

section_few() {
	local n
	for n in 10 100; do
		latency_row "$n keys" "SELECT sum(v) FROM points WHERE k = ANY (ARRAY(
			SELECT hashint8extended((:i + j * 7919) % $rows, 0) FROM generate_series(1, $n) j));" '1 / 1.1'
	done
	latency_row 'join, LIMIT 1' 'SELECT v FROM probes JOIN points USING (k) LIMIT 1;' '1 / 1.1'
	latency_row 'join with 10 rows' 'SELECT sum(v) FROM (SELECT k FROM probes LIMIT 10) few JOIN points USING (k);' '1 / 1.1'
}

start_server $((rows * 150 / 1000000 + 512)) -c work_mem=1GB -c max_parallel_workers_per_gather=0
load

sections=("$@")
[ $# -gt 0 ] || sections=(arrays joins few)
for section in "${sections[@]}"; do
	say "Section $section"
	"section_$section"
done

say "$(sql -c 'SELECT version()'), $(nproc) processors, $rows rows, medians of $runs runs, ms"
printf '| | best plan with btree | btree | harmonia | times as fast | at first | target |\n'
printf '| --- | --- | --- | --- | --- | --- | --- |\n'
cat "$dir/table"
