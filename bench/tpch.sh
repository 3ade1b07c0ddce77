#!/bin/bash
# Compares the 22 queries of TPC-H on btree indexes, with harmonia indexes in place of the secondary ones,
# and with the best plan that can be forced there: processor time of the backend, or the time that passes
# if workers take part.  Answers are compared.
#
# usage: TPCH_KIT=FOLDER bench/tpch.sh [SECTION...]
#
#   default tuned workers      default: default and tuned
#
# Environment:
#
#   TPCH_KIT   a clone of https://github.com/electrum/tpch-dbgen at commit 32f1c1b; it is built
#              in a copy, and nothing of it is part of this project
#   SCALE (1), RUNS (3), and the variables of bench/statements.sh and bench/common.sh
#
# "default" has PostgreSQL's own settings, "tuned" random_page_cost 1.1 and 256 MB of work_mem, both no
# workers; "workers" is tuned, with two of them.  Takes 6 GB of memory and of disk space at scale 1.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$root/bench/common.sh"
# shellcheck source-path=SCRIPTDIR source=statements.sh
. "$root/bench/statements.sh"

start_suite tpch 0 3 0
scale=${SCALE:-1}
[ -e "${TPCH_KIT:-}/qgen.c" ] || die 'TPCH_KIT is not a clone of https://github.com/electrum/tpch-dbgen'

build_kit() {
	say 'Building dbgen and qgen'
	cp -a "$TPCH_KIT" "$dir/kit"
	make -s -C "$dir/kit" -f makefile.suite CC='gcc -w' DATABASE=ORACLE MACHINE=LINUX WORKLOAD=TPCH dbgen qgen >&2
}

# query NUMBER: prints the query with the kit's default parameters, as PostgreSQL reads it.
query() {
	local folder=queries
	[ "$1" != 15 ] || folder=variants
	(cd "$dir/kit" && DSS_QUERY=$folder ./qgen -d -s "$scale" "$([ "$1" = 15 ] && echo 15a || echo "$1")") |
		sed -e '/^--/d' -e 's/ day (3)/ day/' | tr '\n' ' ' |
		sed -e 's/; *where rownum <= -1;//' -e 's/; *where rownum <= \([0-9]*\);/ limit \1;/' -e 's/;.*//'
}

load() {
	local table
	say "Making and loading data of scale $scale"
	(cd "$dir/kit" && ./dbgen -q -f -s "$scale" >&2)
	sql -c 'CREATE DATABASE base'
	sql -d base <<-'END'
		CREATE TABLE region (r_regionkey int, r_name char(25), r_comment varchar(152));
		CREATE TABLE nation (n_nationkey int, n_name char(25), n_regionkey int, n_comment varchar(152));
		CREATE TABLE part (p_partkey int, p_name varchar(55), p_mfgr char(25), p_brand char(10), p_type varchar(25),
			p_size int, p_container char(10), p_retailprice numeric(15, 2), p_comment varchar(23));
		CREATE TABLE supplier (s_suppkey int, s_name char(25), s_address varchar(40), s_nationkey int,
			s_phone char(15), s_acctbal numeric(15, 2), s_comment varchar(101));
		CREATE TABLE partsupp (ps_partkey int, ps_suppkey int, ps_availqty int, ps_supplycost numeric(15, 2),
			ps_comment varchar(199));
		CREATE TABLE customer (c_custkey int, c_name varchar(25), c_address varchar(40), c_nationkey int,
			c_phone char(15), c_acctbal numeric(15, 2), c_mktsegment char(10), c_comment varchar(117));
		CREATE TABLE orders (o_orderkey bigint, o_custkey int, o_orderstatus char(1), o_totalprice numeric(15, 2),
			o_orderdate date, o_orderpriority char(15), o_clerk char(15), o_shippriority int, o_comment varchar(79));
		CREATE TABLE lineitem (l_orderkey bigint, l_partkey int, l_suppkey int, l_linenumber int,
			l_quantity numeric(15, 2), l_extendedprice numeric(15, 2), l_discount numeric(15, 2), l_tax numeric(15, 2),
			l_returnflag char(1), l_linestatus char(1), l_shipdate date, l_commitdate date, l_receiptdate date,
			l_shipinstruct char(25), l_shipmode char(10), l_comment varchar(44));
	END
	for table in region nation part supplier partsupp customer orders lineitem; do
		sed 's/|$//' "$dir/kit/$table.tbl" | sql -d base -c "COPY $table FROM STDIN (DELIMITER '|')"
		rm "$dir/kit/$table.tbl"
	done
	sql -d base <<-'END'
		ALTER TABLE region ADD PRIMARY KEY (r_regionkey);
		ALTER TABLE nation ADD PRIMARY KEY (n_nationkey);
		ALTER TABLE part ADD PRIMARY KEY (p_partkey);
		ALTER TABLE supplier ADD PRIMARY KEY (s_suppkey);
		ALTER TABLE partsupp ADD PRIMARY KEY (ps_partkey, ps_suppkey);
		ALTER TABLE customer ADD PRIMARY KEY (c_custkey);
		ALTER TABLE orders ADD PRIMARY KEY (o_orderkey);
		ALTER TABLE lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber);
		CREATE INDEX ON nation (n_regionkey);
		CREATE INDEX ON supplier (s_nationkey);
		CREATE INDEX ON customer (c_nationkey);
		CREATE INDEX ON partsupp (ps_suppkey);
		CREATE INDEX ON orders (o_custkey);
		CREATE INDEX ON orders (o_orderdate);
		CREATE INDEX ON lineitem (l_orderkey);
		CREATE INDEX ON lineitem (l_partkey, l_suppkey);
		CREATE INDEX ON lineitem (l_suppkey);
		CREATE INDEX ON lineitem (l_shipdate);
	END
	replace_secondary_indexes >"$dir/indexes.sql"
	make_copies "$dir/indexes.sql"
}

# run_queries SECTION [SETTING...]
run_queries() {
	local section=$1 number
	shift
	open_sessions "$@"
	for ((number = 1; number <= 22; number++)); do
		compare_statement "$section" "Q$number" "$(query "$number")"
	done
	close_sessions
	record_means "$section"
}

section_default() {
	run_queries default max_parallel_workers_per_gather=0 random_page_cost=4 "work_mem='4MB'"
}

section_tuned() {
	run_queries tuned max_parallel_workers_per_gather=0 random_page_cost=1.1 "work_mem='256MB'"
}

section_workers() {
	workers=2 run_queries workers max_parallel_workers_per_gather=2 random_page_cost=1.1 "work_mem='256MB'"
}

build_kit
start_with_data "$(awk -v scale="$scale" 'BEGIN { print int(scale * 6000 + 1000) }')"
[ $# -gt 0 ] || set -- default tuned
run_sections default tuned workers -- "$@"
