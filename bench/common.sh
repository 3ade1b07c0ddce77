# shellcheck shell=bash disable=SC2154
# Included by the scripts of this folder: runs a private server, runs and times SQL, and
# records figures.  A script first includes tools/common.sh, which sets $root.  It calls
# start_suite, start_server and run_sections, and record or note for each figure.
#
# Environment variables of all scripts:
#
#   RESULTS          folder for the figures, as SUITE.csv; without it they are only printed
#   BINDIR           programs of a PostgreSQL that has the extension; then it is not built
#   SECONDS_A_RUN    for runs with clients; 0: 100 transactions each, to try a script

# start_suite NAME ROWS RUNS SECONDS: sets the suite's name, and the script's default
# values of ROWS, RUNS and SECONDS_A_RUN.
start_suite() {
	suite=$1
	rows=${ROWS:-$2}
	runs=${RUNS:-$3}
	seconds_a_run=${SECONDS_A_RUN:-$4}
	check_environment
	dir=$(make_private_dir)
	trap clean_up EXIT
	trap 'exit 130' INT TERM
	csv=${RESULTS:-$dir}/$suite.csv
	mkdir -p "$(dirname "$csv")"
	[ -e "$csv" ] || echo 'suite,section,case,system,value,unit,runs,remark' >"$csv"
}

# clean_up: stops the servers and removes their directory.  For traps.
clean_up() {
	local status=$? server
	trap - EXIT
	trap '' INT TERM
	for server in "${!connection[@]}"; do
		"$root/tools/private-server.sh" stop "$dir/$server" -m immediate || true
	done
	rm -rf "$dir"
	exit "$status"
}

# start_server MEGABYTES [-c NAME=VALUE]...: builds the extension and starts the server
# "main".  It runs until the script ends.
start_server() {
	local memory=$1 programs=${BINDIR:-}
	shift
	[ -n "$programs" ] || "$root/tools/setup.sh" build run
	find_pg_config

	if [ -z "$programs" ]; then
		say "Building and installing into $dir"
		programs=$("$root/tools/private-install.sh" "$dir/install")
	fi
	add_server main "$programs" "$memory" "$@"
}

# install_copy NAME PG_CONFIG [COMMIT]: builds a copy of the checkout, or another commit, for
# that PostgreSQL.  Prints the folder of programs.  Objects in the checkout stay as they are.
install_copy() {
	local copy=$dir/$1.source
	mkdir "$copy"
	if [ -n "${3:-}" ]; then
		git -C "$root" archive "$3" | tar -x -C "$copy"
	else
		tar -C "$root" --exclude=./.git --exclude='*.[ado]' --exclude='*.bc' --exclude='*.so' \
			--exclude=.build-flags -c . | tar -x -C "$copy"
	fi
	PG_CONFIG=$2 "$copy/tools/private-install.sh" "$dir/$1.install"
}

# add_server NAME PROGRAMS MEGABYTES [-c NAME=VALUE]...: starts a server with shared buffers
# of this size, and uses it from now on.
declare -A connection=()
add_server() {
	local name=$1 programs=$2 memory=$3
	shift 3
	[ -e "$dir/$name" ] || (cd / && as_server_user mkdir "$dir/$name")
	connection[$name]=:
	connection[$name]=$("$root/tools/private-server.sh" start "$dir/$name" "$programs" \
		-c "shared_buffers=${memory}MB" -c max_wal_size=100GB -c checkpoint_timeout=1h \
		-c maintenance_work_mem=1GB -c autovacuum=off -c fsync=off -c jit=off \
		-c random_page_cost=1.1 "$@")
	use_server "$name"
	sql -c 'CREATE EXTENSION IF NOT EXISTS harmonia'
	[ -z "${RESULTS:-}" ] || {
		printf -- '- Suite %s, server %s, %s rows, %s runs, %s s a run of clients; %s: ' \
			"$suite" "$name" "$rows" "$runs" "$seconds_a_run" "$(sql -c 'SHOW server_version')"
		sql -c "SELECT string_agg(name || ' = ' || current_setting(name), ', ' ORDER BY name)
			FROM pg_settings WHERE source = 'command line' AND name NOT LIKE '%\_file' AND name <> 'data_directory'"
	} >>"$RESULTS/conditions.md"
}

# use_server NAME: sql, timings and pgbench go to this server.
use_server() {
	eval "${connection[$1]}"
}

# run_sections DEFAULT... -- [SECTION...]: calls section_NAME for the named sections, or
# for all.  Prints tables of the recorded figures.
run_sections() {
	local all=() section
	while [ "$1" != -- ]; do
		all+=("$1")
		shift
	done
	shift
	[ $# -gt 0 ] || set -- "${all[@]}"
	for section in "$@"; do
		say "Suite $suite, section $section"
		"section_$section"
	done
	use_server main
	say "$(sql -c 'SELECT version()'), $(nproc) processors, $rows rows, medians of $runs runs"
	awk -f "$root/bench/tables.awk" "$csv"
}

# print_targets: prints which targets of what has been measured are reached.
print_targets() {
	printf '\n### %s: targets\n\n' "$suite"
	awk -F , -v suite="$suite" 'NR == 1 || $4 == suite' "$root/bench/targets.csv" |
		awk -f "$root/bench/targets.awk" - "$csv" | grep -v '| not measured |'
}

# sql [ARGUMENT...]: prints psql's answer.  The settings in $options apply.
options=
sql() {
	PGOPTIONS="-c client_min_messages=warning $options" psql -X -A -t -q -v ON_ERROR_STOP=1 "$@"
}

# timings STATEMENT...: prints the milliseconds of each statement, all in one session.
timings() {
	local statement arguments=()
	for statement in "$@"; do
		arguments+=(-c "$statement")
	done
	sql -c '\timing on' "${arguments[@]}" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
}

# Of each session that stays: what it reads and writes, and the processes of psql and of the backend.
declare -A input=() output=() client=() backend=()

# open_session NAME [ARGUMENT...]: a session of psql that stays, with these arguments.  The settings in
# $options apply.
open_session() {
	local in out
	mkfifo "$dir/$1.in" "$dir/$1.out"
	sql "${@:2}" <"$dir/$1.in" >"$dir/$1.out" &
	client[$1]=$!
	exec {in}>"$dir/$1.in" {out}<"$dir/$1.out"
	input[$1]=$in output[$1]=$out
	backend[$1]=$(ask "$1" 'SELECT pg_backend_pid()')
}

close_session() {
	printf '\\q\n' >&"${input[$1]}"
	wait "${client[$1]}" || true
	eval "exec ${input[$1]}>&- ${output[$1]}<&-"
	rm "$dir/$1.in" "$dir/$1.out"
}

# ask NAME STATEMENT: prints what the session answers.
ask() {
	local line=''
	printf '%s;\n\\echo end of answer\n' "$2" >&"${input[$1]}"
	while IFS= read -r line <&"${output[$1]}" && [ "$line" != 'end of answer' ]; do
		printf '%s\n' "$line"
	done
	[ "$line" = 'end of answer' ] || die "the session has ended with: $2"
}

# processor_time NAME: prints the nanoseconds that the session's backend was on a processor.
processor_time() {
	local nanoseconds rest
	read -r nanoseconds rest <"/proc/${backend[$1]}/schedstat"
	echo "$nanoseconds"
}

median() {
	sort -g | awk '{ v[NR] = $1 } END { print (NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2) }'
}

# transactions_a_second CLIENTS STATEMENT...: runs pgbench with prepared statements;
# $options apply.
transactions_a_second() {
	local clients=$1
	shift
	printf '%s\n' "$@" >"$dir/script"
	run_pgbench "$clients" -f "$dir/script"
}

# run_pgbench CLIENTS OPTION...: prints transactions per second.
run_pgbench() {
	local clients=$1 length=(-T "$seconds_a_run")
	shift
	[ "$seconds_a_run" -gt 0 ] || length=(-t 100)
	PGOPTIONS=$options pgbench -n -M prepared -c "$clients" -j "$((clients < $(nproc) ? clients : $(nproc)))" \
		"${length[@]}" "$@" | sed -n 's/^tps = \([0-9.]*\) .*/\1/p'
}

# mix_round TABLE ROWS PERCENT ROUND: prints the operations per second of one batch of
# ROWS / 100 operations.  PERCENT of them are changes, half of these inserts and half
# deletes; the rest are look-ups.  Keys are hashint8extended(i, 0) in column k, at first
# for i from 1 to ROWS. $options apply.
mix_round() {
	local table=$1 count=$2 percent=$3 round=$4
	local batch=$((count / 100))
	local changes=$((batch * percent / 200)) lookups=$((batch * (100 - percent) / 100))
	local base=$((count + round * batch))
	timings \
		"INSERT INTO $table SELECT hashint8extended(i, 0), i FROM generate_series($base + 1::bigint, $base + $changes) i" \
		"DELETE FROM $table USING (SELECT hashint8extended($round * $batch + j, 0) AS key
			FROM generate_series(1::bigint, $changes) j OFFSET 0) d WHERE k = d.key" \
		"VACUUM $table" \
		"SELECT sum(id) FROM (SELECT hashint8extended(($round * 7919::bigint + j * 104729) % $count, 0) AS key
			FROM generate_series(1::bigint, $lookups) j OFFSET 0) d JOIN $table ON k = d.key" |
		awk -v n="$batch" '{ ms += $1 } END { print n / ms * 1000 }'
}

# plan_of QUERY: prints the name of the query's plan: our node, or else the uppermost join or
# scan.
plan_of() {
	sql -c "EXPLAIN (COSTS OFF) $1" | sed '/InitPlan/,+1d' |
		sed -n 's/^[ >-]*\(Parallel \|\)\(Custom Scan ([A-Za-z]*)\|Hash [A-Za-z ]*Join\|Hash Join\|Nested Loop[A-Za-z ]*\|Merge [A-Za-z ]*Join\|Index Only Scan\|Index Scan\|Bitmap Heap Scan\|Seq Scan\).*/\2/p' |
		awk '/^Custom/ && !found { print; found = 1 } NR == 1 { first = $0 } END { if (!found) print first }'
}

# show_only TABLE INDEX...: hides the table's other indexes from the planner.
show_only() {
	local table=$1
	shift
	sql -c "UPDATE pg_index SET indisvalid = indexrelid = ANY ('{$(IFS=, && echo "$*")}'::regclass[])
		WHERE indrelid = '$table'::regclass"
}

# record SECTION CASE SYSTEM VALUE UNIT RUNS [REMARK]: records a figure.  A section is a
# table with cases as rows and systems as columns; if the cases are numbers it is also a
# plot.  More is better if the unit ends in "/s", otherwise less.  If a figure is
# recorded again, the last one counts.
record() {
	local field
	for field in "$@"; do
		[[ $field != *[,\"]* ]] || die "a comma or quote in what is recorded: $field"
	done
	[[ $4 =~ ^-?[0-9.]+(e[-+]?[0-9]+)?$ ]] || die "no figure for $1, $2, $3: $4"
	printf '%s,%s,%s,%s,%.6g,%s,%s,%s\n' "$suite" "$1" "$2" "$3" "$4" "$5" "$6" "${7:-}" >>"$csv"
	printf '%s | %s | %s: %.4g %s%s\n' "$1" "$2" "$3" "$4" "$5" "${7:+ ($7)}"
}

# note SYSTEM UNIT: notes figures of a run, one on each line of the input.
note() {
	sed "s|^|$1\t$2\t|" >>"$dir/noted"
}

# summary median|sum|spread: prints lines with system, unit, figure and number of runs of
# what was noted.  A sum adds up the steps of one run; a spread is a median, with a field
# more that says which was the least and the largest figure.
summary() {
	sort -s -t $'\t' -k 3,3g "$dir/noted" | awk -F '\t' -v how="$1" '
		{ key = $1 FS $2; n[key]++; v[key, n[key]] = $3; sum[key] += $3 }
		END {
			while ((getline line < noted) > 0) {
				split(line, f, FS)
				key = f[1] FS f[2]
				if (!(key in n) || key in done)
					continue
				done[key]
				half = int((n[key] + 1) / 2)
				m = n[key] % 2 ? v[key, half] : (v[key, half] + v[key, half + 1]) / 2
				print key FS (how == "sum" ? sum[key] FS 1 : m FS n[key]) \
					(how == "spread" ? FS sprintf("%.4g to %.4g", v[key, 1], v[key, n[key]]) : "")
			}
		}' noted="$dir/noted"
	rm "$dir/noted"
}

# record_noted SECTION CASE: records the medians of what was noted.
record_noted() {
	local system unit value count
	summary median | while IFS=$'\t' read -r system unit value count; do
		record "$1" "$2" "$system" "$value" "$unit" "$count"
	done
}

# find_best_plan QUERY...: finds the fastest of PostgreSQL's own plans for these, which ask the same: the
# planner's choice without our nodes, and what it chooses then if kinds of joins or bitmap scans are turned
# off.  Each is tried once, and stopped when it takes longer than another one did.  Sets best_query,
# best_options, and best_ms to the milliseconds it took.
find_best_plan() {
	local query off took tried='' plan without
	options=
	without=$(sql -c "LOAD 'harmonia'" -c "SELECT string_agg('-c ' || name || '=0', ' ') FROM pg_settings
		WHERE name LIKE 'harmonia.enable%' AND name NOT LIKE '%device%'")
	best_ms=300000
	for query in "$@"; do
		for off in '' '-c enable_hashjoin=0' '-c enable_mergejoin=0' '-c enable_hashjoin=0 -c enable_mergejoin=0' \
			'-c enable_nestloop=0' '-c enable_bitmapscan=0 -c enable_seqscan=0'; do
			options="$without $off"
			plan=$(sql -c "EXPLAIN (COSTS OFF) $query" | md5sum)
			[[ $tried != *$plan* ]] || continue
			tried+=$plan
			options+=" -c statement_timeout=$best_ms"
			timings "$query" >"$dir/times" 2>"$dir/failed" || {
				grep -q 'due to statement timeout' "$dir/failed" || die "$(cat "$dir/failed")"
				continue
			}
			took=$(awk '{ print int($1 + 1) }' "$dir/times")
			[ "$took" -lt "$best_ms" ] || continue
			best_ms=$took
			best_query=$query
			best_options="$without $off"
		done
	done
}

# beside_best SECTION CASE QUERY [QUERY]...: records the times of the first query with our nodes, and of
# PostgreSQL's best plan for all of these, which ask the same.  Systems take turns at each execution, and
# their answers are compared.  A run is a session, in which the first execution of each does not count.  If
# the best plan takes longer than a second, and twice as long as ours, there are OTHER_RUNS (2) runs.  more_systems may have the settings
# of other systems, by their names.  Sets what find_best_plan sets.
declare -A more_systems=()
beside_best() {
	local expected times run count_of_runs system unit value count spread
	local systems=(harmonia 'best plan' "${!more_systems[@]}")
	local -A options_of=() query_of=() plan_name=()
	# The first query, which asks most of PostgreSQL, has a limit if it comes last.
	find_best_plan "${@:4}" "$3"
	for system in "${systems[@]}"; do
		options_of[$system]=${more_systems[$system]:-}
		query_of[$system]=$3
	done
	options_of['best plan']=$best_options
	query_of['best plan']=$best_query
	times=$((best_ms < 10 ? 49 : best_ms < 100 ? 9 : best_ms < 1000 ? 3 : 1))
	count_of_runs=$((best_ms < 1000 || ${OTHER_RUNS:-2} > runs ? runs : ${OTHER_RUNS:-2}))
	options=
	for ((run = 0; run < count_of_runs; run++)); do
		run_together "$times"
		is_twice_as_fast || count_of_runs=$runs
	done
	for system in "${systems[@]}"; do
		options=${options_of[$system]}
		plan_name[$system]=$(plan_of "${query_of[$system]}")
	done
	options=
	summary spread >"$dir/medians"
	while IFS=$'\t' read -r system unit value count spread; do
		record "$1" "$2" "$system" "$value" "$unit" "$count" "$spread; ${plan_name[$system]}"
	done <"$dir/medians"
}

# run_together TIMES: runs the queries of beside_best in one session, so many times and once before that; notes
# the medians, and compares the answers.  What disturbs the machine so meets all systems alike.
run_together() {
	local i system order=("${systems[@]}")
	for ((i = 0; i <= $1; i++)); do
		for system in "${order[@]}"; do
			printf '%s\n' '\timing off' 'RESET ALL;'
			printf '%s;\n' "${options_of[$system]//-c /;SET }"
			printf '%s\n' "\echo of $i $system" '\timing on' "${query_of[$system]};"
		done
		[ "${order[0]}" = harmonia ] && order=('best plan' "${!more_systems[@]}" harmonia) || order=("${systems[@]}")
	done >"$dir/together.sql"
	sql -f "$dir/together.sql" >"$dir/session"
	for system in "${systems[@]}"; do
		awk -v wanted="$system" '/^of / { counts = $2 > 0; sub(/^of [0-9]+ /, ""); now = $0 }
			/^Time: / && now == wanted && counts { print $2 }' "$dir/session" | median | note "$system" ms
		check_answer "$system" "$(awk -v wanted="$system" '/^of / { sub(/^of [0-9]+ /, ""); now = $0; next }
			!/^Tim/ && now == wanted' "$dir/session" | sort -u)" "${query_of[$system]}"
	done
}

# is_twice_as_fast: whether harmonia took less than half of the time of the best plan, by what is noted last.
is_twice_as_fast() {
	awk -F '\t' '{ ms[$1] = $3 } END { exit ms["harmonia"] * 2 >= ms["best plan"] }' "$dir/noted"
}

# check_answer SYSTEM ANSWER QUERY: compares with $expected, which the first call sets.
check_answer() {
	[ -v expected ] || expected=$2
	[ "$2" = "$expected" ] || die "answer of $1: $2, not $expected, to $3"
}

# run_in_turn SYSTEM QUERY TIMES: notes the median of these executions in one session, after another one, and
# checks the answer.
run_in_turn() {
	local i statements=()
	for ((i = 0; i <= $3; i++)); do
		statements+=(-c "$2")
	done
	sql -c '\timing on' "${statements[@]}" >"$dir/session"
	sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' "$dir/session" | tail -n +2 | median | note "$1" ms
	check_answer "$1" "$(sed '/^Tim/d' "$dir/session" | sort -u)" "$2"
}

# record_worst SECTION: records how many times as long as PostgreSQL's best plan harmonia took at worst.
record_worst() {
	awk -F , -v section="$1" '$2 == section { ms[$3, $4] = $5; cases[$3] }
		END {
			for (c in cases)
				if (ms[c, "best plan"] > 0 && ms[c, "harmonia"] / ms[c, "best plan"] > worst) {
					worst = ms[c, "harmonia"] / ms[c, "best plan"]
					which = c
				}
			printf "%s\t%s\n", worst, which
		}' "$csv" >"$dir/worst"
	local worst which
	IFS=$'\t' read -r worst which <"$dir/worst"
	record "$1: worst case" 'beside best plan' harmonia "$worst" times 1 "$which"
}
