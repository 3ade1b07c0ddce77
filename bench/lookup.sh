#!/bin/bash
# Compares lookup scans and lookup joins with PostgreSQL's own plans over btree and hash
# indexes, on a private server.  Prints Markdown tables of medians.
#
# usage: bench/lookup.sh [SECTION...]
#
#   arrays joins few clients      default: all of them
#
# Environment: ROWS (20000000), RUNS (5), SECONDS_A_RUN (5), PROBES (ROWS / 20; outer
# rows of joins), MAX_KEYS (ROWS / 2; keys in arrays), and the variables of
# bench/common.sh.  Takes about 250 bytes of memory and as much disk space for each row.
#
# All data is in shared buffers, each query has one process, and work_mem is large for
# all systems.  A run is a session that executes the query several times.  The first
# time has its own tables ("at first"), because the session then sees pages for the
# first time.  "btree" and "hash" are nested loops or scans with that index.  "best
# plan" is the fastest of these, of the planner's choice with both indexes, of hash and
# merge joins and, for long arrays, of the same question as a join with unnest(array).
# A bitmap scan of a hash index compares each row with the array from its start, in
# quadratic time.  For arrays of more than 10,000 keys it would take minutes and hours,
# so these are left out. pg_index.indisvalid hides indexes that must not be used.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite lookup 20000000 5 5
probes=${PROBES:-$((rows / 20))}
max_keys=${MAX_KEYS:-$((rows / 2))}

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
		-c "CREATE TABLE arrays AS
			SELECT n, ARRAY(SELECT hashint8extended(1 + (i * 7919) % $rows, 0) FROM generate_series(1, n) i) AS keys
			FROM (SELECT (10 ^ e)::bigint AS n FROM generate_series(1, 7) e) s WHERE n <= $max_keys" \
		-c 'CREATE INDEX points_btree ON points (k)' \
		-c 'CREATE INDEX points_hash ON points USING hash (k)' \
		-c 'CREATE INDEX points_harmonia ON points USING harmonia (k)' \
		-c 'VACUUM (ANALYZE, FREEZE)' \
		-c 'CREATE EXTENSION pg_prewarm' \
		-c "SELECT pg_prewarm(x)
			FROM unnest('{points,points_btree,points_hash,points_harmonia,probes,half}'::regclass[]) x" \
		>"$dir/load"
}

# look_at SYSTEM: lets the planner see what this system may use.
look_at() {
	options=
	case $1 in
		btree | hash)
			show_only points "points_$1"
			options='-c enable_hashjoin=off -c enable_mergejoin=off'
			;;
		planner) show_only points "${own_indexes[@]}" ;;
		join)
			show_only points "${own_indexes[@]}"
			options='-c enable_nestloop=off'
			;;
		harmonia) show_only points points_harmonia ;;
	esac
}

# run_query SYSTEM QUERY TIMES: notes the first time in a session, and the median of the
# others.  Prints that median.
run_query() {
	local system=$1 query=$2 times=$3 i statements=("$2")
	look_at "$system"
	for ((i = 0; i < times; i++)); do
		statements+=("$query")
	done
	timings "${statements[@]}" >"$dir/times"
	tail -n +2 "$dir/times" | median | tee "$dir/time" | note "$system" ms
	head -n 1 "$dir/times" | note "$system" first
	cat "$dir/time"
}

# query_row SECTION CASE QUERY TIMES SYSTEM...: measures the query with PostgreSQL's
# systems and with harmonia. $as_join, if set, is the same question as a join.
query_row() {
	local section=$1 case=$2 query=$3 times=$4 system plan plans='' fastest best best_plan
	local measured=("${@:5}") run value unit count label answer expected
	local own_indexes=("${@:5}")
	own_indexes=("${own_indexes[@]/#/points_}")
	local -A queries=([btree]=$query [hash]=$query [planner]=$query [join]=${as_join:-$query} [harmonia]=$query)
	for system in "${measured[@]}" planner join; do
		look_at "$system"
		plan=$(sql -c "EXPLAIN (COSTS OFF) ${queries[$system]}" | md5sum)
		[[ " ${measured[*]} " = *" $system "* || $plans != *$plan* ]] || continue
		plans+=$plan
		run_query "$system" "${queries[$system]}" "$times" | sed "s/^/$system /"
	done >"$dir/first_run"
	fastest=$(sort -g -k 2 "$dir/first_run" | sed 's/ .*//;q')
	[[ $fastest = btree || $fastest = hash ]] || measured+=("$fastest")
	for ((run = 0; run < runs; run++)); do
		if ((run > 0)); then
			for system in "${measured[@]}"; do
				run_query "$system" "${queries[$system]}" "$times" >/dev/null
			done
		fi
		run_query harmonia "$query" "$times" >/dev/null
	done

	summary median >"$dir/medians"
	best=$(for system in "${measured[@]}"; do
		awk -F '\t' -v system_is="$system" '$1 == system_is && $2 == "ms" { print $3, $1 }' "$dir/medians"
	done | sort -g | sed 's/.* //;q')
	look_at "$best"
	best_plan=$(plan_of "${queries[$best]}")
	expected=$(sql -c "${queries[$best]}")
	look_at harmonia
	answer=$(sql -c "$query")
	[ "$answer" = "$expected" ] || die "wrong answer to $query: $answer, not $expected"
	plan=$(plan_of "$query")
	while IFS=$'\t' read -r system unit value count; do
		label=$section
		[ "$unit" = ms ] || label+=' at first'
		case $system in
			btree | hash) record "$label" "$case" "$system" "$value" ms "$count" ;;
			harmonia)
				record "$label" "$case" "$system" "$value" ms "$count" \
					"$([[ $plan = Custom* ]] || echo "planned as $plan")"
				;;
		esac
		[ "$system" != "$best" ] || record "$label" "$case" 'best plan' "$value" ms "$count" "$best_plan"
	done <"$dir/medians"
}

section_arrays() {
	local n array what times systems as_join
	for what in 'count(*)' 'sum(v)'; do
		for n in $(sql -c 'SELECT n FROM arrays ORDER BY n'); do
			array="(SELECT keys FROM arrays WHERE n = $n)"
			times=$((n < 1000 ? 20 : n < 100000 ? 5 : 1))
			systems=(btree hash)
			[ "$n" -le 10000 ] || systems=(btree)
			as_join=
			[ "$n" -lt 100000 ] || as_join="SELECT $what FROM points WHERE k IN (SELECT unnest($array))"
			query_row "$what by number of keys in = ANY" "$n" \
				"SELECT $what FROM points WHERE k = ANY ($array::bigint[])" "$times" "${systems[@]}"
		done
	done
}

section_joins() {
	query_row joins 'inner with heap' 'SELECT sum(v) FROM probes JOIN points USING (k)' 1 btree hash
	query_row joins 'inner index-only' 'SELECT sum(points.k % 10) FROM probes JOIN points USING (k)' 1 btree hash
	query_row joins 'left half without a match' \
		'SELECT sum(v), count(*) FROM half LEFT JOIN points USING (k)' 1 btree hash
	query_row joins 'semi: probes that exist' \
		'SELECT sum(p) FROM half WHERE EXISTS (SELECT FROM points WHERE points.k = half.k)' 1 btree hash
	query_row joins 'anti: probes that do not exist' \
		'SELECT sum(p) FROM half WHERE NOT EXISTS (SELECT FROM points WHERE points.k = half.k)' 1 btree hash
	query_row joins 'IN (SELECT ...) with heap' \
		'SELECT sum(v) FROM points WHERE k IN (SELECT k FROM probes)' 1 btree hash
	query_row joins 'ranges of some 10 rows' \
		"SELECT count(*) FROM (SELECT k AS low, k / 2 + (k / 2 + 2^63 / $rows * 10)::bigint AS high
			FROM probes WHERE p <= $probes / 10 AND k BETWEEN 0 AND 2^62 OFFSET 0) r
		JOIN points ON k BETWEEN low AND high" 1 btree
}

few_keys() {
	printf %s "SELECT sum(v) FROM points WHERE k = ANY (ARRAY(
		SELECT hashint8extended((:i + j * 7919) % $rows, 0) FROM generate_series(1, $1) j));" | tr -d '\n'
}

# client_row SECTION CASE CLIENTS UNIT STATEMENT: measures a prepared statement.
client_row() {
	local section=$1 case=$2 clients=$3 unit=$4 statement=$5 run method
	for ((run = 0; run < runs; run++)); do
		for method in btree hash harmonia; do
			show_only points "points_$method"
			transactions_a_second "$clients" "\\set i random(1, $rows)" "$statement" |
				awk -v unit="$unit" '{ print (unit == "ms" ? 1000 / $1 : $1) }' | note "$method" "$unit"
		done
	done
	record_noted "$section" "$case"
}

section_few() {
	client_row few '10 keys' 1 ms "$(few_keys 10)"
	client_row few '100 keys' 1 ms "$(few_keys 100)"
	client_row few 'join LIMIT 1' 1 ms 'SELECT v FROM probes JOIN points USING (k) LIMIT 1;'
	client_row few 'join with 10 rows' 1 ms 'SELECT sum(v) FROM (SELECT k FROM probes LIMIT 10) few JOIN points USING (k);'
}

section_clients() {
	local clients
	for clients in 1 2 4 8; do
		client_row 'clients that look 1 key up' "$clients" "$clients" transactions/s \
			'SELECT v FROM points WHERE k = hashint8extended(:i, 0);'
	done
	for clients in 1 2 4 8; do
		client_row 'clients that look 100 keys up' "$clients" "$clients" transactions/s "$(few_keys 100)"
	done
}

start_server $((rows * 220 / 1000000 + 512)) -c work_mem=1GB -c max_parallel_workers_per_gather=0
load
run_sections arrays joins few clients -- "$@"
