#!/bin/bash
# Says whether the planner chooses well: executes queries of many shapes with the plan that is
# chosen, with each other plan that settings can force, and with PostgreSQL's own choice, on a
# private server.  Prints Markdown tables of medians.
#
# usage: bench/shapes.sh [SECTION...]
#
#   cached default      default: both of them
#
# Environment: ROWS (10000000), RUNS (3), SHAPES (a regular expression; only shapes whose
# name it matches), and the variables of bench/common.sh.  Takes about 600 bytes of memory and
# as much disk space for each row.
#
# "cached" has random_page_cost 1.1, 1 GB of work_mem and no workers; "default" has PostgreSQL's
# own settings: random_page_cost 4, 4 MB of work_mem, two workers.  All data is in shared buffers
# in both.  Tables have a btree and a harmonia index.  A shape's other plans are all that differ
# in EXPLAIN when joins, scans, workers or our nodes are turned off.  Each is tried once, and
# stopped when it takes more than twice as long as the chosen one; the others take turns.  If one
# is faster than the chosen one, the two have as many runs again.  A run is a session; its first
# execution does not count.  "core" is what is chosen without our nodes; "best" is the fastest of all.  Brackets have the least and the largest figure, and the plan.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite shapes 10000000 3 0
wanted=${SHAPES:-.}

# Inner tables differ in the correlation of keys, the width of rows, and partitions.  The outer
# table has a column of random keys for each.
load() {
	local i low high table
	say "Loading $rows rows"
	sql -c "CREATE TABLE random AS
			SELECT hashint8extended(i, 0) AS k, i::int AS v FROM generate_series(1::bigint, $rows) i" \
		-c "CREATE TABLE serial AS SELECT i AS k, i::int AS v FROM generate_series(1::bigint, $rows) i" \
		-c "CREATE TABLE wide AS
			SELECT hashint8extended(i, 0) AS k, i::int AS v, repeat(md5(i::text), 6) AS filler
			FROM generate_series(1::bigint, $rows / 4) i" \
		-c 'CREATE TABLE parts (k bigint, v int) PARTITION BY RANGE (k)' \
		-c "CREATE TABLE duplicates AS
			SELECT hashint8extended(1 + i % ($rows / 20), 0) AS k, i::int AS v FROM generate_series(1::bigint, $rows / 2) i" \
		-c "CREATE TABLE small AS
			SELECT hashint8extended(i, 0) AS k, i::int AS v FROM generate_series(1::bigint, $rows / 1000) i"
	for ((i = 0; i < 8; i++)); do
		# Eighths of all values, from -2^63 on; the upper one is exclusive.
		low=$(((i - 4) * (1 << 61)))
		high=$((i < 7 ? low + (1 << 61) : (1 << 63) - 1))
		sql -c "CREATE TABLE parts_$i PARTITION OF parts FOR VALUES FROM ($low) TO ($high)"
	done
	sql -c "INSERT INTO parts SELECT hashint8extended(i, 0), i FROM generate_series(1::bigint, $rows / 2) i" \
		-c "CREATE TABLE probes AS
			SELECT p, hashint8extended(1 + n % $rows, 0) AS random_k, 1 + n % $rows AS serial_k,
				hashint8extended(1 + n % ($rows / 4), 0) AS wide_k, hashint8extended(1 + n % ($rows / 2), 0) AS parts_k,
				hashint8extended(1 + n % ($rows / 20), 0) AS duplicates_k,
				hashint8extended(1 + n % ($rows / 1000), 0) AS small_k,
				CASE WHEN p % 100 = 0 THEN hashint8extended(1 + n % $rows, 0) ELSE hashint8extended(n, 5) END AS rare_k
			FROM (SELECT i::int AS p, hashint8extended(i, 1) & 4611686018427387903 AS n
				FROM generate_series(1::bigint, $rows / 4) i) s" \
		-c 'CREATE INDEX ON probes (p)' \
		-c "CREATE TABLE arrays AS SELECT array_agg(random_k) AS keys FROM probes WHERE p <= $rows / 20"
	for table in random serial wide parts duplicates small; do
		sql -c "CREATE INDEX ON $table (k)" -c "CREATE INDEX ON $table USING harmonia (k)"
	done
	sql -c 'VACUUM (ANALYZE, FREEZE)'
	sql -c 'CREATE EXTENSION pg_prewarm' \
		-c "SELECT pg_prewarm(oid) FROM pg_class WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace" >"$dir/load"
}

# shapes: prints a line for each shape: its name, a tab, the query.
shapes() {
	local table n what many=$((rows / 20)) array
	for n in 100 $((rows / 1000)) "$many" $((rows / 4)); do
		for table in random serial wide parts; do
			shape "$n probes in $table: sum(v)" \
				"SELECT sum(v) FROM probes JOIN $table ON k = ${table}_k WHERE p <= $n"
		done
		for table in random parts; do
			shape "$n probes in $table: count(*)" \
				"SELECT count(*) FROM probes JOIN $table ON k = ${table}_k WHERE p <= $n"
		done
	done
	for what in 'count(*)' 'sum(v)'; do
		shape "10 rows a key: $what" "SELECT $what FROM probes JOIN duplicates ON k = duplicates_k WHERE p <= $many"
		shape "small inner table: $what" "SELECT $what FROM probes JOIN small ON k = small_k"
		shape "one hit in a hundred probes: $what" "SELECT $what FROM probes JOIN random ON k = rare_k WHERE p <= $many"
		shape "IN (SELECT): $what" "SELECT $what FROM random WHERE k IN (SELECT random_k FROM probes WHERE p <= $many)"
		shape "DISTINCT probes: $what" \
			"SELECT $what FROM (SELECT DISTINCT random_k FROM probes WHERE p <= $many) d JOIN random ON k = random_k"
		for n in 10 1000 "$many"; do
			shape "= ANY (ARRAY(SELECT)) of $n keys: $what" \
				"SELECT $what FROM random WHERE k = ANY (ARRAY(SELECT random_k FROM probes WHERE p <= $n))"
		done
		shape "= ANY (stored array): $what" "SELECT $what FROM random WHERE k = ANY ((SELECT keys FROM arrays)::bigint[])"
		array=$(seq -s , 1 777 $((rows * 3 / 4)) | cut -d , -f 1-1000)
		shape "IN list of 1000 keys: $what" "SELECT $what FROM serial WHERE k IN ($array)"
		shape "an inner filter leaves a tenth: $what" \
			"SELECT $what FROM probes JOIN random ON k = random_k WHERE p <= $many AND v % 10 = 0"
	done
	shape 'EXISTS' "SELECT sum(p) FROM probes WHERE p <= $many AND EXISTS (SELECT FROM random WHERE k = random_k)"
	shape 'NOT EXISTS' "SELECT sum(p) FROM probes WHERE p <= $many AND NOT EXISTS (SELECT FROM random WHERE k = rare_k)"
	shape 'EXISTS with few hits' "SELECT sum(p) FROM probes WHERE p <= $many AND EXISTS (SELECT FROM random WHERE k = rare_k)"
	shape 'left join' "SELECT sum(p), sum(v) FROM probes LEFT JOIN random ON k = rare_k WHERE p <= $many"
	shape 'LIMIT 10' 'SELECT v FROM probes JOIN random ON k = random_k LIMIT 10'
	shape 'ORDER BY with LIMIT 10' "SELECT v FROM probes JOIN random ON k = random_k WHERE p <= $many ORDER BY p LIMIT 10"
	shape 'two joins' \
		"SELECT sum(random.v + serial.v) FROM probes JOIN random ON random.k = random_k JOIN serial ON serial.k = serial_k WHERE p <= $many"
	shape 'GROUP BY' "SELECT count(*) FROM (SELECT p % 100, sum(v) FROM probes JOIN random ON k = random_k WHERE p <= $many GROUP BY 1) g"
	shape 'ranges of 10 rows' \
		"SELECT sum(v) FROM probes JOIN serial ON k BETWEEN serial_k AND serial_k + 9 WHERE p <= $rows / 1000"
}

# shape NAME QUERY: prints the line, if the shape is wanted.
shape() {
	[[ ! $1 =~ $wanted ]] || printf '%s\t%s\n' "$1" "$(tr -s '\n\t' ' ' <<<"$2")"
}

# alternatives: prints settings, a line for each plan that may differ from the chosen one, which
# comes first, and core's, which comes second.
alternatives() {
	local hash=enable_hashjoin merge=enable_mergejoin loop=enable_nestloop own off
	local scans='enable_indexscan enable_indexonlyscan enable_bitmapscan'
	own=$(tr '\n' ' ' <<<"$nodes")
	turn_off ''
	turn_off "$own"
	for off in $hash $merge $loop "$hash $merge" "$hash $loop" "$merge $loop" "$hash $merge $loop" \
		enable_bitmapscan enable_seqscan "$scans" "$scans $hash $merge $loop" enable_hashagg \
		max_parallel_workers_per_gather; do
		turn_off "$off"
		turn_off "$own $off"
	done
	for off in $nodes; do
		turn_off "$off"
	done
}

# turn_off NAMES: prints a line with options that turn these off.
turn_off() {
	local name
	for name in $1; do
		printf -- '-c %s=0 ' "$name"
	done
	echo
}

# run_alternative TIMES: notes the median of these executions in one session, after another one.
# Compares the answer.
run_alternative() {
	local i statements=()
	for ((i = 0; i <= $1; i++)); do
		statements+=(-c "$query")
	done
	sql -c '\timing on' "${statements[@]}" >"$dir/session"
	sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' "$dir/session" | tail -n +2 | median | note "$alternative" ms
	compare "$(sed '/^Tim/d' "$dir/session" | sort -u)"
}

# compare ANSWER: ends the script if it is not the chosen plan's.  Rows that a LIMIT takes may
# differ.
compare() {
	[[ $query != *LIMIT* ]] || return 0
	[ -v expected ] || expected=$1
	[ "$1" = "$expected" ] || die "answer with $options: $1, not $expected, to $query"
}

# try_alternative: executes the query once with $options.  Prints the milliseconds, or nothing if
# it takes longer than $limit.
try_alternative() {
	options+=" -c statement_timeout=$limit"
	if timings "$query" >"$dir/times" 2>"$dir/failed"; then
		cat "$dir/times"
	else
		grep -q 'due to statement timeout' "$dir/failed" || die "$(cat "$dir/failed")"
	fi
}

# measure SECTION SETTINGS CASE QUERY: measures a shape.
measure() {
	local section=$1 settings=$2 case=$3 query=$4 expected alternative=0 plan took limit=300000 times best
	local core=2 off
	local -A option=() name=() same=()
	while IFS= read -r off; do
		options="$settings $off"
		plan=$(sql -c "EXPLAIN (COSTS OFF) $query" | md5sum)
		alternative=$((alternative + 1))
		[ "$alternative" -ne 2 ] || core=${same[$plan]:-2}
		# The same plan as of other settings.
		[ -z "${same[$plan]:-}" ] || continue
		same[$plan]=$alternative
		name[$alternative]=$(plan_of "$query")
		took=$(try_alternative)
		if [ "$alternative" -eq 1 ]; then
			limit=$(awk -v took="$took" 'BEGIN { print int(2 * took + 50) }')
			times=$(awk -v took="$took" 'BEGIN { print took < 50 ? 7 : took < 500 ? 3 : 1 }')
		fi
		[ -z "$took" ] || option[$alternative]="$settings $off"
	done <"$dir/alternatives"
	# The fastest of many may be so by chance, and is measured again.
	take_turns "$runs" "${!option[@]}"
	cp "$dir/noted" "$dir/first_noted"
	best=$(fastest_of "${!option[@]}")
	cp "$dir/first_noted" "$dir/noted"
	[ "$best" -eq 1 ] || take_turns "$runs" 1 "$best"
	# PostgreSQL's own plan is worth a figure even if it takes long.
	if [ -z "${option[$core]:-}" ]; then
		limit=300000
		options="$settings $(sed -n 2p "$dir/alternatives")"
		try_alternative | note "$core" ms
	fi
	best=$(fastest_of 1 "$core" "$best")
	record_shape
}

# take_turns RUNS ALTERNATIVE...: runs these in turn.
take_turns() {
	local run alternative
	for ((run = 0; run < $1; run++)); do
		for alternative in "${@:2}"; do
			options=${option[$alternative]}
			run_alternative "$times"
		done
	done
}

# fastest_of ALTERNATIVE...: prints which of these is the fastest so far.  Leaves the medians in
# a file.
fastest_of() {
	summary spread >"$dir/medians"
	sort -t $'\t' -k 3,3g "$dir/medians" | cut -f 1 | grep -xF "$(printf '%s\n' "$@")" | head -n 1
}

# record_shape: records the chosen plan, core's and the best one, and what they are to each other.
record_shape() {
	local system alternative unit value count spread chosen
	for system in chosen core best; do
		case $system in
			chosen) alternative=1 ;;
			core) alternative=$core ;;
			best) alternative=$best ;;
		esac
		grep -P "^$alternative\t" "$dir/medians" >"$dir/figure"
		IFS=$'\t' read -r alternative unit value count spread <"$dir/figure"
		record "$section" "$case" "$system" "$value" ms "$count" "$spread; ${name[$alternative]}"
		if [ "$system" = chosen ]; then
			chosen=$value
		else
			record "$section: chosen beside others" "$case" "beside $system" \
				"$(awk -v a="$chosen" -v b="$value" 'BEGIN { print a / b }')" times "$count"
		fi
	done
}

# section_of NAME SETTINGS: measures all shapes, and says which ones are worst.
section_of() {
	local case query system lines
	options=$2
	nodes=$(sql -c "LOAD 'harmonia'" -c "SELECT name FROM pg_settings
		WHERE name LIKE 'harmonia.enable%' AND name NOT LIKE '%device%' ORDER BY name")
	alternatives >"$dir/alternatives"
	shapes >"$dir/shapes"
	while IFS=$'\t' read -r case query; do
		measure "$1" "$2" "$case" "$query"
	done <"$dir/shapes"
	for system in best core; do
		lines=$(awk -F , -v section="$1: chosen beside others" -v system_is="beside $system" \
			'$2 == section && $4 == system_is { print $5 }' "$csv")
		sort -g <<<"$lines" | tail -n 1 >"$dir/worst"
		record "$1: worst of all shapes" "beside $system" chosen "$(cat "$dir/worst")" times "$runs"
		record "$1: worst of all shapes" "beside $system" chosen "$(awk '$1 > 1.2' <<<"$lines" | wc -l)" \
			"shapes of $(wc -l <<<"$lines") above 1.2" "$runs"
	done
}

section_cached() {
	section_of cached '-c work_mem=1GB -c max_parallel_workers_per_gather=0'
}

section_default() {
	section_of default '-c work_mem=4MB -c random_page_cost=4 -c max_parallel_workers_per_gather=2'
}

start_server $((rows * 300 / 1000000 + 512))
load
run_sections cached default -- "$@"
print_targets
