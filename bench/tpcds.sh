#!/bin/bash
# Compares the queries of TPC-DS on btree indexes, with harmonia indexes in place of those of foreign keys and
# beside the primary keys, and with the best plan that can be forced there: processor time of the backend.
# Answers are compared.
#
# usage: TPCDS_KIT=FOLDER bench/tpcds.sh
#
# Environment:
#
#   TPCDS_KIT   a clone of https://github.com/gregrahn/tpcds-kit at commit 5a3a817; it is built
#               in a copy, and nothing of it is part of this project.  That takes bison and flex.
#   SCALE (1), RUNS (3), LIMIT (60: queries that take more seconds on btrees are left out), and the
#   variables of bench/statements.sh and bench/common.sh
#
# Without workers, random_page_cost 1.1 and 256 MB of work_mem.  Queries that PostgreSQL does not accept as
# the kit writes them are left out, too, and named.  Takes 5 GB of memory and of disk space at scale 1.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"
# shellcheck source-path=SCRIPTDIR source=statements.sh
. "$root/bench/statements.sh"

start_suite tpcds 0 3 0
scale=${SCALE:-1}
[ -e "${TPCDS_KIT:-}/query_templates/templates.lst" ] || die 'TPCDS_KIT is not a clone of https://github.com/gregrahn/tpcds-kit'

# build_kit: builds the kit, and makes $dir/queries/NUMBER.sql, the first of those that a template has.
build_kit() {
	say 'Building dsdgen and dsqgen'
	cp -a "$TPCDS_KIT" "$dir/kit"
	make -s -C "$dir/kit/tools" OS=LINUX CC='gcc -w -fcommon' dsdgen dsqgen tpcds.idx >&2
	mkdir "$dir/queries"
	(cd "$dir/kit/tools" && ./dsqgen -VERBOSE N -QUIET Y -DIRECTORY ../query_templates -INPUT ../query_templates/templates.lst \
		-DIALECT netezza -SCALE "$scale" -RNGSEED 1 -OUTPUT_DIR "$dir/queries" >&2)
	sed 's/ 30 days/ 30/; s/ 60 days/ 60/; s/ 14 days/ 14/; s/ 90 days/ 90/' "$dir/queries/query_0.sql" | awk -v dir="$dir/queries" '
		/^-- start query/ { number = $0; sub(/.*template query/, "", number); sub(/\.tpl.*/, "", number); done = 0; next }
		/^-- end query/ { number = "" }
		number != "" && !done { done = sub(/;.*/, ""); print > (dir "/" number ".sql") }'
}

load() {
	local table
	say "Making and loading data of scale $scale"
	mkdir "$dir/data"
	(cd "$dir/kit/tools" && ./dsdgen -SCALE "$scale" -DIR "$dir/data" -FORCE Y -QUIET Y >&2)
	sql -c 'CREATE DATABASE base'
	sql -d base -f "$dir/kit/tools/tpcds.sql"
	for table in "$dir"/data/*.dat; do
		sed 's/|$//' "$table" | sql -d base -c "COPY $(basename "$table" .dat) FROM STDIN (DELIMITER '|', NULL '', ENCODING 'latin1')"
		rm "$table"
	done
	# An index for each foreign key.
	sed -n 's/^alter table \([a-z_]*\) .* foreign key *(\([a-z_, ]*\)) .*/CREATE INDEX ON \1 (\2);/p' "$dir/kit/tools/tpcds_ri.sql" |
		sort -u | sql -d base -v ON_ERROR_STOP=0 2>/dev/null
	replace_secondary_indexes >"$dir/indexes.sql"
	make_copies "$dir/indexes.sql"
}

# can_be_run NAME STATEMENT: whether PostgreSQL accepts it, and answers in time on btrees.
can_be_run() {
	sql -d btree -c "SET statement_timeout = '${LIMIT:-60}s'; SET work_mem = '256MB'; SET random_page_cost = 1.1" \
		-c "$2" >/dev/null 2>"$dir/refused" && return
	printf '%s is left out: %s\n' "$1" "$(sed -n '1s/.*ERROR: *//p' "$dir/refused")"
	return 1
}

section_queries() {
	local number statement
	open_sessions max_parallel_workers_per_gather=0 random_page_cost=1.1 "work_mem='256MB'"
	for ((number = 1; number <= 99; number++)); do
		[[ Q$number =~ ${STATEMENTS:-.} ]] || continue
		statement=$(tr '\n' ' ' <"$dir/queries/$number.sql")
		! can_be_run "Q$number" "$statement" || compare_statement queries "Q$number" "$statement"
	done
	close_sessions
	record_means queries
}

build_kit
start_with_data "$(awk -v scale="$scale" 'BEGIN { print int(scale * 4000 + 1000) }')"
run_sections queries -- "$@"
