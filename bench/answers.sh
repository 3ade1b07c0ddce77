#!/bin/bash
# Measures queries that want an answer, not rows, in one run: harmonia and PostgreSQL's own
# plans in two versions of PostgreSQL, DuckDB, and harmonia as it was before.  Prints Markdown
# tables of medians, and which targets are reached.
#
# usage: bench/answers.sh [SECTION...]
#
#   large default variants small      default: all of them
#
# Environment:
#
#   ROWS (20000000), PROBES (ROWS / 20), RUNS (5), SECONDS_A_RUN (2)
#   OTHER_RUNS       runs of PostgreSQL's own best plan, which takes seconds (3); 0: none
#   OTHER_PG_CONFIG  pg_config of another version of PostgreSQL, for which a copy of the
#                    checkout is built; or OTHER_BINDIR, its programs with the extension
#   BEFORE           the commit to compare with (7e3f64f, in which rows of lookup joins
#                    were minimal tuples); or BEFORE_BINDIR
#   PYTHON           a Python with DuckDB from PyPI (python3)
#   and the variables of bench/common.sh
#
# Without another PostgreSQL, DuckDB, or the repository, what needs them is left out.  Takes
# about 600 bytes of memory for each row, and as much disk space.
#
# "large" has 1 GB of work_mem, "default" 4 MB.  A run of each system is a session that executes
# the query several times.  The first time has tables of its own ("at first").  Systems take
# turns, and each answer is compared.  Brackets have the least and the largest figure.  Probes are
# keys of random rows.  "Plain scan" reads the probes and adds up a column.  "best plan" is the
# fastest of the planner's choice, nested loops over a btree and a hash index, hash and merge
# joins, all of these also for the same question in other words; each is tried once, and stopped
# when it takes longer than another one did.  DuckDB has its tables in memory, and one thread.
# pg_index.indisvalid hides indexes that must not be used.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"

start_suite answers 20000000 5 2
probes=${PROBES:-$((rows / 20))}
other_runs=${OTHER_RUNS:-3}
((other_runs <= runs)) || other_runs=$runs
before=${BEFORE:-7e3f64f}
python=${PYTHON:-python3}
megabytes=$((rows * 220 / 1000000 + 512))
settings=(-c max_parallel_workers_per_gather=0 -c max_parallel_maintenance_workers=0)
# Servers with the present version, and what tables call them.
servers=()
declare -A label=()
has_duck=
# Indexes that are not hidden, by server and table.
declare -A shown=()

# random_number SEED N: an expression for a number from 1 to N that depends on i; not random(),
# so that all systems have the same.
random_number() {
	echo "1 + (hashint8extended(i, $1) & 4611686018427387903) % $2::bigint"
}

# load INDEX...: makes the tables with rows, with these indexes.
load() {
	local method
	say "Loading $rows rows and $probes probes"
	sql -c "CREATE TABLE points AS
			SELECT hashint8extended(i, 0) AS k, i::int AS v FROM generate_series(1::bigint, $rows) i" \
		-c "CREATE TABLE probes AS
			SELECT hashint8extended($(random_number 1 "$rows"), 0) AS k, i::int AS p
			FROM generate_series(1::bigint, $probes) i" \
		-c 'CREATE TABLE parted_probes (k bigint, p int) PARTITION BY RANGE (p)' \
		-c "CREATE TABLE parted_probes_1 PARTITION OF parted_probes FOR VALUES FROM (MINVALUE) TO ($probes / 2)" \
		-c "CREATE TABLE parted_probes_2 PARTITION OF parted_probes FOR VALUES FROM ($probes / 2) TO (MAXVALUE)" \
		-c 'INSERT INTO parted_probes SELECT * FROM probes' \
		-c "CREATE TABLE half AS
			SELECT hashint8extended($(random_number 2 "$rows * 2"), 0) AS k, i::int AS p
			FROM generate_series(1::bigint, $probes) i" \
		-c 'CREATE TABLE arrays AS SELECT array_agg(k) AS keys FROM probes' \
		-c 'CREATE EXTENSION pg_prewarm'
	for method in "$@"; do
		sql -c "CREATE INDEX points_$method ON points USING $method (k)"
	done
	sql -c 'VACUUM (ANALYZE, FREEZE)'
	warm points,probes,parted_probes,half
}

# warm TABLE,...: reads tables and their indexes into shared buffers.
warm() {
	sql -c "WITH leaves AS (
			SELECT coalesce(relid, t) AS leaf
			FROM unnest('{$1}'::regclass[]) t LEFT JOIN LATERAL pg_partition_tree(t) p ON isleaf
			WHERE isleaf OR relid IS NULL)
		SELECT pg_prewarm(leaf) FROM leaves
		UNION ALL SELECT pg_prewarm(indexrelid) FROM leaves JOIN pg_index ON indrelid = leaf" >"$dir/warmed"
}

# label_server NAME: notes a server that has the present version of the extension.
label_server() {
	servers+=("$1")
	label[$1]="PostgreSQL $(sql -c "SELECT current_setting('server_version_num')::int / 10000")"
}

# prepare_all: the servers and DuckDB of the sections that compare all of these.
prepare_all() {
	local programs=${OTHER_BINDIR:-}
	[ -z "${prepared_all:-}" ] || return 0
	prepared_all=yes
	if [ -n "${OTHER_PG_CONFIG:-}" ] || [ -n "$programs" ]; then
		say "Building for the other PostgreSQL"
		[ -n "$programs" ] || programs=$(install_copy other "$OTHER_PG_CONFIG")
		add_server other "$programs" "$megabytes" "${settings[@]}"
		label_server other
		load btree hash harmonia
	else
		warn 'Neither OTHER_PG_CONFIG nor OTHER_BINDIR is set: only one version of PostgreSQL'
	fi
	if "$python" -c 'import duckdb' 2>/dev/null; then
		start_duck
		load_duck
	else
		warn "No DuckDB for $python"
	fi
}

# start_duck: DuckDB runs in the background and is spoken to through two pipes.
start_duck() {
	mkfifo "$dir/to_duck" "$dir/from_duck"
	"$python" "$root/bench/duck.py" <"$dir/to_duck" >"$dir/from_duck" &
	exec 8>"$dir/to_duck" 9<"$dir/from_duck"
	has_duck=yes
}

# in_duck TIMES STATEMENT: prints the milliseconds of each time, a tab, and the answer.
in_duck() {
	local line
	printf '%s\t%s\n' "$1" "$(tr -s '\n\t' ' ' <<<"$2")" >&8
	IFS= read -r line <&9 || die "DuckDB failed: $2"
	printf '%s\n' "$line"
}

load_duck() {
	local table
	use_server main
	for table in points:k,v probes:k,p half:k,p; do
		sql -c "COPY (SELECT ${table#*:} FROM ${table%:*}) TO '$dir/main/copied' (FORMAT csv)"
		in_duck 1 "CREATE TABLE ${table%:*} AS SELECT ${table/*:?,/k, } FROM read_csv('$dir/main/copied', header = false,
			columns = {'k': 'BIGINT', '${table/*,/}': 'INTEGER'})" >"$dir/loaded"
	done
	rm "$dir/main/copied"
	in_duck 1 'CREATE TABLE parted_probes AS SELECT * FROM probes' >"$dir/loaded"
	in_duck 1 'CREATE TABLE arrays AS SELECT list(k) AS keys FROM probes' >"$dir/loaded"
	say "DuckDB $("$python" -c 'import duckdb; print(duckdb.__version__)')"
	[ -z "${RESULTS:-}" ] ||
		"$python" -c 'import duckdb; print("- DuckDB " + duckdb.__version__ + ", in memory, one thread")' >>"$RESULTS/conditions.md"
}

# show INDEX...: hides other indexes of points from the planner, unless they are hidden.
show() {
	[ "${shown[$server]:-}" = "$*" ] || show_only points "$@"
	shown[$server]=$*
}

# compare QUERY ANSWER: ends the script if this is not the answer that others gave.
compare() {
	[ -v expected ] || expected=$2
	[ "$2" = "$expected" ] || die "answer of $server to $1: $2, not $expected"
}

# session SYSTEM QUERY TIMES: notes the first time in a session, and the median of the others.
# The settings in $options apply.  Sets answered.
session() {
	local system=$1 query=$2 times=$3 i statements=()
	for ((i = 0; i <= times; i++)); do
		statements+=(-c "$query")
	done
	sql -c '\timing on' "${statements[@]}" >"$dir/session"
	sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' "$dir/session" >"$dir/times"
	note_times "$system"
	answered=$(sed '/^Tim/d' "$dir/session" | sort -u)
}

# note_times SYSTEM: the first one, and the median of the others.
note_times() {
	head -n 1 "$dir/times" | note "$1" first
	tail -n +2 "$dir/times" | median | note "$1" ms
}

# try_candidate INDEXES SETTINGS QUERY: executes the query once, unless its plan has been tried,
# and keeps it as best_... if it is the fastest so far.
try_candidate() {
	local indexes plan limit=0 took
	read -ra indexes <<<"$1"
	show "${indexes[@]}"
	options="$memory_option $2"
	plan=$(sql -c "EXPLAIN (COSTS OFF) $3" | md5sum)
	[[ $tried != *$plan* ]] || return 0
	tried+=$plan
	[ -z "$best_took" ] || limit=$(awk -v took="$best_took" 'BEGIN { print int(took) + 10 }')
	options+=" -c statement_timeout=$limit"
	if ! took=$(timings "$3" 2>"$dir/failed"); then
		grep -q 'due to statement timeout' "$dir/failed" || die "$(cat "$dir/failed")"
	elif [ -z "$best_took" ] || awk -v a="$took" -v b="$best_took" 'BEGIN { exit !(a < b) }'; then
		best_took=$took best_indexes=$1 best_options=$2 best_query=$3
	fi
}

# find_best QUERY...: finds the fastest of PostgreSQL's own plans for these, which ask the same.
# Keeps it by server.
declare -A best_plan=()
find_best() {
	local query tried='' best_took='' best_indexes='' best_options='' best_query=''
	for query in "$@"; do
		try_candidate points_btree '-c enable_hashjoin=off -c enable_mergejoin=off' "$query"
		try_candidate 'points_btree points_hash' '' "$query"
		try_candidate points_btree '-c enable_bitmapscan=off' "$query"
		try_candidate points_hash '-c enable_hashjoin=off -c enable_mergejoin=off' "$query"
		try_candidate points_btree '-c enable_nestloop=off -c enable_hashjoin=off' "$query"
		try_candidate points_btree '-c enable_nestloop=off -c enable_mergejoin=off' "$query"
	done
	best_plan[$server indexes]=$best_indexes
	best_plan[$server options]=$best_options
	best_plan[$server query]=$best_query
	options="$memory_option $best_options"
	read -ra indexes <<<"$best_indexes"
	show "${indexes[@]}"
	best_plan[$server name]=$(plan_of "$best_query")
}

# answer CASE QUERY [AS_JOIN [IN_DUCK [EQUAL]]]: measures a query in all systems.  AS_JOIN is the
# same question in other words, for PostgreSQL's own plans; IN_DUCK is DuckDB's, and EQUAL a
# query to compare with.
answer() {
	local case=$1 query=$2 as_join=${3:-} duck_query=${4:-$2} equal=${5:-} expected server run indexes
	local -A plan=()
	for server in "${servers[@]}"; do
		use_server "$server"
		((own_runs == 0)) || find_best "$query" ${as_join:+"$as_join"}
		options=$memory_option
		show points_harmonia
		plan[$server]=$(plan_of "$query")
	done
	for ((run = 0; run < runs; run++)); do
		for server in "${servers[@]}"; do
			use_server "$server"
			options=$memory_option
			show points_harmonia
			session "$server:plain scan" 'SELECT sum(p) FROM probes' 5
			session "$server:harmonia" "$query" 5
			compare "$query" "$answered"
			if [ -n "$equal" ]; then
				session "$server:= ANY" "$equal" 5
				compare "$equal" "$answered"
			fi
			if ((run < own_runs)); then
				options="$memory_option ${best_plan[$server options]}"
				read -ra indexes <<<"${best_plan[$server indexes]}"
				show "${indexes[@]}"
				session "$server:best plan" "${best_plan[$server query]}" 1
				compare "${best_plan[$server query]}" "$answered"
			fi
		done
		server=DuckDB
		if [ -n "$has_duck" ]; then
			in_duck 4 "$duck_query" >"$dir/session"
			cut -f 1 "$dir/session" | tr ' ' '\n' >"$dir/times"
			note_times DuckDB
			compare "$duck_query" "$(cut -f 2 "$dir/session")"
		fi
	done
	summary spread >"$dir/medians"
	for server in "${servers[@]}"; do
		record_server
	done
}

# record_server: records what was measured of a case in a server, and DuckDB beside it.
record_server() {
	local system unit value count spread table remark
	while IFS=$'\t' read -r system unit value count spread; do
		[[ $system = DuckDB || $system = "$server:"* ]] || continue
		system=${system#*:}
		table="${label[$server]} with work_mem $memory"
		[ "$unit" = ms ] || table+=' at first'
		remark=$spread
		case $system in
			harmonia) [[ ${plan[$server]} = *Harmonia* ]] || remark+="; planned as ${plan[$server]}" ;;
			'best plan') remark+="; ${best_plan[$server name]}" ;;
		esac
		record "$table" "$case" "$system" "$value" ms "$count" "$remark"
	done <"$dir/medians"
}

# answers MEMORY OWN_RUNS: all queries with that work_mem.
answers() {
	local memory=$1 own_runs=$2 memory_option="-c work_mem=$1" what exists
	prepare_all
	answer 'join: count(*)' 'SELECT count(*) FROM probes JOIN points USING (k)'
	answer 'join: count(*) with two partitions of probes' 'SELECT count(*) FROM parted_probes JOIN points USING (k)'
	answer 'join: sum(v)' 'SELECT sum(v) FROM probes JOIN points USING (k)'
	for what in probes half; do
		exists="EXISTS (SELECT 1 FROM points WHERE points.k = $what.k)"
		answer "$what that exist: sum(p)" "SELECT sum(p) FROM $what WHERE $exists"
		answer "$what that do not exist: sum(p)" "SELECT sum(p) FROM $what WHERE NOT $exists"
	done
	for what in 'count(*)' 'sum(v)'; do
		answer "IN (SELECT): $what" "SELECT $what FROM points WHERE k IN (SELECT k FROM probes)" '' '' \
			"SELECT $what FROM points WHERE k = ANY (ARRAY(SELECT k FROM probes))"
		answer "= ANY (ARRAY(SELECT)): $what" "SELECT $what FROM points WHERE k = ANY (ARRAY(SELECT k FROM probes))" \
			"SELECT $what FROM points WHERE k IN (SELECT k FROM probes)" \
			"SELECT $what FROM points WHERE k IN (SELECT k FROM probes)"
		answer "= ANY (stored array): $what" \
			"SELECT $what FROM points WHERE k = ANY ((SELECT keys FROM arrays)::bigint[])" \
			"SELECT $what FROM points WHERE k IN (SELECT unnest(keys) FROM arrays)" \
			"SELECT $what FROM points WHERE k IN (SELECT unnest(keys) FROM arrays)"
		answer "join with DISTINCT probes: $what" \
			"SELECT $what FROM (SELECT DISTINCT k FROM probes) d JOIN points USING (k)" \
			"SELECT $what FROM points WHERE k IN (SELECT k FROM probes)"
	done
}

section_large() { answers 1GB "$other_runs"; }
# PostgreSQL's plans for this are slower than for the former, and no target names them.
section_default() { answers 4MB $((other_runs > 0)); }

# prepare_before: the server with the version before.  Returns 1 if there is none.
prepare_before() {
	local programs=${BEFORE_BINDIR:-}
	[ -z "${connection[before]:-}" ] || return 0
	if [ -z "$programs" ] && ! git -C "$root" cat-file -e "$before^{commit}" 2>/dev/null; then
		warn "No commit $before here: nothing to compare with"
		return 1
	fi
	say "Building the version before"
	[ -n "$programs" ] || programs=$(install_copy before "$PG_CONFIG" "$before")
	add_server before "$programs" "$megabytes" "${settings[@]}"
	[ -z "${RESULTS:-}" ] || echo "- The version before is ${BEFORE_BINDIR:-$before}" >>"$RESULTS/conditions.md"
	load harmonia
}

# on_both STATEMENT...: executes the statements in both versions' servers.
on_both() {
	local server statement arguments=()
	for statement in "$@"; do
		arguments+=(-c "$statement")
	done
	for server in main before; do
		use_server "$server"
		options='' sql "${arguments[@]}" >"$dir/done"
	done
}

# variant CASE QUERY: measures a query in both versions, with 4 MB and 1 GB of work_mem.
variant() {
	local case=$1 query=$2 expected run server memory plan unit value count spread
	for memory in 1GB 4MB; do
		options="-c work_mem=$memory"
		for ((run = 0; run < (other_runs > 0 ? other_runs : runs); run++)); do
			for server in before main; do
				use_server "$server"
				session "$server" "$query" 3
				compare "$query" "$answered"
			done
		done
		plan=$(plan_of "$query")
		summary spread >"$dir/medians"
		while IFS=$'\t' read -r server unit value count spread; do
			[ "$unit" = ms ] || continue
			if [ "$server" = main ]; then
				server=harmonia
				[[ $plan = *Harmonia* ]] || spread+="; planned as $plan"
			fi
			record "variants with work_mem $memory" "$case" "$server" "$value" ms "$count" "$spread"
		done <"$dir/medians"
	done
}

# join_variants CASE INNER [OUTER]: a count and a sum over a join.
join_variants() {
	variant "$1: count(*)" "SELECT count(*) FROM ${3:-probes} p JOIN $2 t USING (k)"
	variant "$1: sum(v)" "SELECT sum(t.v) FROM ${3:-probes} p JOIN $2 t USING (k)"
}

# make_inner NAME KEY [PARTITIONING STATEMENT...]: makes a table like points, whose key is this
# expression of i; the statements make partitions.
make_inner() {
	local name=$1 key=$2
	on_both "CREATE TABLE $name (k bigint, v int)${3:+ PARTITION BY $3}" "${@:4}" \
		"INSERT INTO $name SELECT $key, i FROM generate_series(1::bigint, $rows) i" \
		"CREATE INDEX ON $name USING harmonia (k)" "VACUUM (ANALYZE, FREEZE) $name"
	warm_both "$name"
}

warm_both() {
	local server
	for server in main before; do
		use_server "$server"
		options='' warm "$1"
	done
}

section_variants() {
	local i low high ranges=() hashes=()
	prepare_before || return 0
	use_server main
	server=main show points_harmonia
	join_variants 'narrow' points
	variant 'IN (SELECT): count(*)' 'SELECT count(*) FROM points WHERE k IN (SELECT k FROM probes)'
	variant 'semi: sum(p)' 'SELECT sum(p) FROM half WHERE EXISTS (SELECT FROM points WHERE points.k = half.k)'
	variant 'anti: sum(p)' 'SELECT sum(p) FROM half WHERE NOT EXISTS (SELECT FROM points WHERE points.k = half.k)'
	variant 'left: count(v)' 'SELECT count(*), count(v) FROM half LEFT JOIN points USING (k)'
	variant 'left: sum(p + v)' 'SELECT sum(p), sum(v) FROM half LEFT JOIN points USING (k)'
	variant 'filter on the inner key: count(*)' \
		'SELECT count(*) FROM probes JOIN points USING (k) WHERE points.k % 10 = 0'
	variant 'filter on an inner column: count(*)' \
		'SELECT count(*) FROM probes JOIN points USING (k) WHERE v % 10 = 0'

	on_both "CREATE TABLE wide AS SELECT *, p AS c1, p AS c2, p AS c3, p AS c4, p AS c5, p AS c6, p AS c7, p AS c8, p AS c9 FROM probes" \
		"CREATE TABLE texts AS SELECT k, p, md5(p::text) || repeat('x', p % 50) AS t FROM probes" \
		"CREATE TABLE nulls AS SELECT CASE WHEN p % 2 = 0 THEN k END AS k, p FROM probes" \
		"CREATE TABLE few AS SELECT CASE WHEN p % 100 = 0 THEN k ELSE hashint8extended($rows + p, 0) END AS k, p FROM probes" \
		'VACUUM (ANALYZE, FREEZE)'
	warm_both wide,texts,nulls,few
	variant 'ten columns of the outer side' \
		'SELECT sum(c1 + v), max(c2), max(c3), max(c4), max(c5), max(c6), max(c7), max(c8), max(c9), max(p)
			FROM wide JOIN points USING (k)'
	variant 'varlena of the outer side' 'SELECT sum(length(t) + v) FROM texts JOIN points USING (k)'
	variant 'left with varlena' 'SELECT sum(length(t)), sum(v) FROM texts LEFT JOIN points USING (k)'
	join_variants 'NULL keys' points nulls
	join_variants 'one hit in a hundred probes' points few
	on_both 'DROP TABLE wide, texts, nulls, few'

	for ((i = 0; i < 8; i++)); do
		# Eighths of all values, from -2^63 on; the upper one is exclusive.
		low=$(((i - 4) * (1 << 61)))
		high=$((i < 7 ? low + (1 << 61) : (1 << 63) - 1))
		ranges+=("CREATE TABLE inner_$i PARTITION OF inner_t FOR VALUES FROM ($low) TO ($high)")
		hashes+=("CREATE TABLE inner_$i PARTITION OF inner_t FOR VALUES WITH (MODULUS 8, REMAINDER $i)")
	done
	make_inner inner_t 'hashint8extended(i, 0)' 'RANGE (k)' "${ranges[@]}"
	join_variants '8 partitions by range' inner_t
	on_both 'DROP TABLE inner_t'
	make_inner inner_t 'hashint8extended(i, 0)' 'HASH (k)' "${hashes[@]}"
	join_variants '8 partitions by hash' inner_t
	on_both 'DROP TABLE inner_t'

	make_inner inner_t 'hashint8extended(i, 0)'
	on_both "UPDATE inner_t SET v = v WHERE v <= $rows / 20"
	join_variants 'a twentieth of the pages not visible to all' inner_t
	on_both "UPDATE inner_t SET v = v WHERE v % 20 = 7"
	join_variants 'a twentieth of the rows on each page changed' inner_t
	on_both 'DROP TABLE inner_t'

	for i in 10 1000; do
		make_inner inner_t "hashint8extended(1 + i % ($rows / $i), 0)"
		on_both "CREATE TABLE duplicates AS SELECT hashint8extended($(random_number 1 "$rows / $i"), 0) AS k, i::int AS p
			FROM generate_series(1::bigint, $probes * 10 / $i) i" 'VACUUM (ANALYZE, FREEZE) duplicates'
		warm_both duplicates
		join_variants "$i rows a key" inner_t duplicates
		on_both 'DROP TABLE inner_t, duplicates'
	done
}

few_keys() {
	printf %s "SELECT sum(v) FROM points WHERE k = ANY (ARRAY(
		SELECT hashint8extended((:i + j * 7919) % $rows, 0) FROM generate_series(1, $1) j));" | tr -d '\n'
}

# small_row CASE STATEMENT: measures a prepared statement of pgbench in both versions.
small_row() {
	local run server
	for ((run = 0; run < runs; run++)); do
		for server in before main; do
			use_server "$server"
			transactions_a_second 1 "\\set i random(1, $rows)" "$2" | awk '{ print 1000 / $1 }' |
				note "${server/main/harmonia}" ms
		done
	done
	record_noted 'small things' "$1"
}

# first_row CASE STATEMENT: measures the first query of twenty sessions in each version.
first_row() {
	local run server
	for ((run = 0; run < 4 * runs; run++)); do
		for server in before main; do
			use_server "$server"
			timings "$2" | note "${server/main/harmonia}" ms
		done
	done
	record_noted 'first query of a session' "$1"
}

section_small() {
	local one
	prepare_before || return 0
	use_server main
	server=main show points_harmonia
	options=
	one='SELECT v FROM points WHERE k = hashint8extended(:i, 0);'
	small_row '1 key' "$one"
	small_row '10 keys' "$(few_keys 10)"
	small_row '100 keys' "$(few_keys 100)"
	small_row 'join with LIMIT 1' 'SELECT v FROM probes JOIN points USING (k) LIMIT 1;'
	small_row 'join with 10 rows' 'SELECT sum(v) FROM (SELECT k FROM probes LIMIT 10) few JOIN points USING (k);'
	first_row '1 key' "${one//:i/7}"
	first_row '10 keys' "$(few_keys 10 | sed 's/:i/7/')"
	first_row 'join with LIMIT 1' 'SELECT v FROM probes JOIN points USING (k) LIMIT 1;'
}

start_server "$megabytes" "${settings[@]}"
label_server main
load btree hash harmonia
run_sections large default variants small -- "$@"
print_targets
