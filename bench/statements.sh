# shellcheck shell=bash disable=SC2154
# Included by the scripts that compare whole statements on schemas which nobody here designed: two
# databases that are copies of each other, statistics included.  "btree" has the indexes that people
# have; in "harmonia", harmonia indexes take the place of the secondary ones and stand beside the primary
# keys.
#
# Environment:
#
#   STATEMENTS       a regular expression; only statements whose name it matches
#   FORCED=no        leave out the plans that are forced
#   DATA             a folder where the server's data stay, and are found the next time

# What the plans that can be forced have turned off.
forced_settings=('enable_nestloop enable_hashjoin enable_mergejoin' 'enable_hashjoin enable_mergejoin'
	'enable_nestloop' 'harmonia.enable_lookup_join harmonia.enable_lookup_scan' 'enable_seqscan')

# start_with_data MEGABYTES: starts the server, and calls "load" if it has no data yet.
start_with_data() {
	[ -z "${DATA:-}" ] || {
		mkdir -p "$DATA"
		ln -s "$(realpath "$DATA")" "$dir/main"
	}
	start_server "$1" -c session_preload_libraries=harmonia
	[ "$(sql -c "SELECT count(*) FROM pg_database WHERE datname = 'harmonia'")" = 1 ] || load
}

# make_copies SCRIPT: makes the two databases of the database "base", and has SCRIPT, a file of SQL,
# make harmonia's indexes.  No session may be in "base".
make_copies() {
	sql -d base -c 'VACUUM ANALYZE' -c CHECKPOINT
	sql -c 'CREATE DATABASE btree TEMPLATE base STRATEGY file_copy' -c 'CREATE DATABASE harmonia TEMPLATE base STRATEGY file_copy'
	sql -d harmonia -f "$1"
	sql -d harmonia -c 'VACUUM'
}

# replace_secondary_indexes: SQL that makes a harmonia index of each btree index, of the same columns, and
# drops those btrees that are not unique.
replace_secondary_indexes() {
	cat <<-'END'
		CREATE EXTENSION IF NOT EXISTS harmonia;
		SELECT regexp_replace(regexp_replace(pg_get_indexdef(indexrelid), '^CREATE (UNIQUE )?INDEX (\S+)', 'CREATE INDEX "hm_\2"'),
				'USING btree', 'USING harmonia') || CASE WHEN indisunique THEN '' ELSE '; DROP INDEX ' || indexrelid::regclass END
			FROM pg_index JOIN pg_class c ON c.oid = indexrelid JOIN pg_am a ON a.oid = relam
			WHERE relnamespace = 'public'::regnamespace AND amname = 'btree' \gexec
	END
}

# open_sessions [SETTING...]: sessions btree, harmonia and forced, with these settings.
open_sessions() {
	local setting statements=''
	for setting in "$@"; do
		statements+="SET $setting;"
	done
	open_session btree -d btree
	open_session harmonia -d harmonia
	open_session forced -d harmonia -v ON_ERROR_STOP=0 2>"$dir/stopped"
	for setting in btree harmonia forced; do
		ask "$setting" "LOAD 'harmonia'; $statements" >/dev/null
	done
	ask btree 'SET harmonia.enable_lookup_join = off; SET harmonia.enable_lookup_scan = off; SET harmonia.enable_lookup_aggregate = off' >/dev/null
}

close_sessions() {
	local name
	for name in btree harmonia forced; do
		close_session "$name"
	done
}

# measure NAME STATEMENT: sets "took" to the milliseconds that the session took for it: of a processor, or of
# the clock if workers take part.  Its answer goes to $dir/answer.NAME.
measure() {
	local start
	if [ "${workers:-0}" -gt 0 ]; then
		start=$(date +%s%N)
		ask "$1" "$2" >"$dir/answer.$1"
		took=$(($(date +%s%N) - start))
	else
		start=$(processor_time "$1")
		ask "$1" "$2" >"$dir/answer.$1"
		took=$(($(processor_time "$1") - start))
	fi
	took=$(awk -v ns="$took" 'BEGIN { printf "%.3f", ns / 1e6 }')
}

# set_all off|on NAME...: these settings, in the session "forced".
set_all() {
	local name
	for name in "${@:2}"; do
		ask forced "SET $name = $1" >/dev/null
	done
}

# find_forced STATEMENT LIMIT: tries each plan that can be forced, and sets best_forced to the settings that
# the fastest has turned off.  Those that take longer than LIMIT milliseconds, or four times as long by the
# clock, are left out.
find_forced() {
	local off least=$2
	best_forced=
	for off in "${forced_settings[@]}"; do
		# shellcheck disable=SC2086
		set_all off $off
		ask forced "SET statement_timeout = $(awk -v least="$least" 'BEGIN { print int(least * 4) + 10 }')" >/dev/null
		measure forced "$1"
		measure forced "$1"
		ask forced 'SET statement_timeout = 0' >/dev/null
		# shellcheck disable=SC2086
		set_all on $off
		if awk -v took="$took" -v least="$least" 'BEGIN { exit took >= least }' && [ -s "$dir/answer.forced" ]; then
			least=$took
			best_forced=$off
		fi
	done
}

# same_answer NAME NAME STATEMENT: whether both sessions have answered the same, in any order.  Of rows that are
# equal in the order that is asked for, a LIMIT may return any: then all rows are compared.
same_answer() {
	local name
	cmp -s <(sort "$dir/answer.$1") <(sort "$dir/answer.$2") && return
	[[ $3 =~ [Ll][Ii][Mm][Ii][Tt]\ [0-9]+\ *$ ]] || return 1
	for name in "$1" "$2"; do
		ask "$name" "${3% [Ll][Ii][Mm][Ii][Tt] *}" | sort >"$dir/all.$name"
	done
	cmp -s "$dir/all.$1" "$dir/all.$2"
}

# compare_statement SECTION NAME STATEMENT: records the medians of the systems, which take turns.
compare_statement() {
	local run names=(btree harmonia) name count=$runs
	[[ $2 =~ ${STATEMENTS:-.} ]] || return 0
	for ((run = 0; run <= count; run++)); do
		for name in "${names[@]}"; do
			measure "$name" "$3"
			[ "$run" -eq 0 ] || note "$name" ms <<<"$took"
		done
		same_answer btree harmonia "$3" || die "$2: the answers differ"
		if [ "$run" -eq 0 ] && [ "${FORCED:-yes}" != no ]; then
			find_forced "$3" "$(awk -v t="$took" 'BEGIN { print int(t * 1.3) + 10 }')"
			[ -z "$best_forced" ] || names=(btree harmonia forced)
			# shellcheck disable=SC2086
			set_all off $best_forced
		fi
		[ "${names[2]:-}" = '' ] || [ "$run" -eq 0 ] || same_answer btree forced "$3" || die "$2: the forced plan's answer differs"
	done
	# shellcheck disable=SC2086
	set_all on ${best_forced:-}
	record_noted "$1" "$2"
}

# record_means SECTION: the geometric mean of harmonia beside btree, the worst statement beside btree, and
# the worst beside the best plan that can be forced.
record_means() {
	local what value which
	awk -F , -v section="$1" '$2 == section { ms[$3, $4] = $5; cases[$3] }
		END {
			for (c in cases) {
				ratio = ms[c, "harmonia"] / ms[c, "btree"]
				sum += log(ratio)
				n++
				if (ratio > worst) { worst = ratio; which = c }
				least = ms[c, "harmonia"]
				if ((c, "forced") in ms && ms[c, "forced"] < least) least = ms[c, "forced"]
				if (ms[c, "harmonia"] / least > missed) { missed = ms[c, "harmonia"] / least; what = c }
			}
			printf "geometric mean beside btree\t%s\t%s statements\n", exp(sum / n), n
			printf "worst beside btree\t%s\t%s\nworst beside the best forced plan\t%s\t%s\n", worst, which, missed, what
		}' "$csv" >"$dir/means"
	while IFS=$'\t' read -r what value which; do
		record "$1: summary" "$what" harmonia "$value" times 1 "$which"
	done <"$dir/means"
}
