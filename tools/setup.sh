#!/bin/bash
# Installs what is missing to build, test or try harmonia, by apt.
#
# usage: tools/setup.sh [--advise] PART...
#
#   build         compiler and PostgreSQL's server headers
#   run           PostgreSQL server and client programs
#   device        what the daemon is built with, but for CUDA
#   test          what the test suites need besides
#   pgtap         what the suite pgtap needs besides these
#   roots         what the suite roots needs
#   ci            another compiler, to see its warnings
#   instrumented  what tools/instrumented-postgres.sh builds PostgreSQL with
#   package       what Debian packages are made with, but for CUDA
#   clients       the client of bench/clients.sh
#   plot          what draws the benchmarks' plots
#   drivers       the client libraries of doc/CLIENTS.md, those in Python by pip into .private/drivers
#   pgdg          apt.postgresql.org, for PostgreSQL versions that the distribution does not have
#
# Does nothing, and needs no privileges, if all is there.  PG_CONFIG says which PostgreSQL:
# /usr/lib/postgresql/17/bin/pg_config stands for 17 even where it is not installed yet.
# Without it tools/postgres.sh chooses.
#
# --advise installs nothing, and prints one line that says what would help.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

named_pg_config=${PG_CONFIG:-}
missing=()

usage() {
	sed -n '2,25s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
	exit 2
}

# need PACKAGE TEST...: a package that is missing if a command fails.
need() {
	local package=$1
	shift
	"$@" >/dev/null 2>&1 || missing+=("$package")
}

# need_of_postgres PACKAGE FILE...: the same for what PostgreSQL consists of.  What was built from
# source cannot be completed by packages.
need_of_postgres() {
	local package=$1 file
	shift
	for file in "$@"; do
		[ -e "$file" ] || [[ $PG_CONFIG == "$debian_home"/* ]] || [[ $bindir == "$debian_home"/* ]] ||
			die "PostgreSQL $major of $PG_CONFIG has no $file; install that, or name another pg_config as PG_CONFIG"
		need "$package" test -e "$file"
	done
}

# Compilers have the names of their packages, but for these.
compiler_package() {
	case ${1##*/} in
		cc) echo gcc ;;
		c++) echo g++ ;;
		clang++) echo clang ;;
		*) echo "${1##*/}" ;;
	esac
}

check_compiler() {
	local words
	read -r -a words <<<"$1"
	need "$(compiler_package "${words[0]}")" command -v "${words[0]}"
	need libc6-dev test -e /usr/include/stdio.h
	need make command -v make
}

check_build() {
	check_compiler "${CC:-gcc}"
	need_of_postgres "postgresql-server-dev-$major" "$server_headers/postgres.h" "$pgxs_src/makefiles/pgxs.mk"
}

check_run() {
	need_of_postgres "postgresql-$major" "$bindir/postgres" "$bindir/pgbench"
	need_of_postgres "postgresql-client-$major" "$bindir/psql"
}

check_device() {
	check_compiler "${CC:-cc}"
	check_compiler "${CXX:-g++}"
}

check_test() {
	check_device
	need perl perl -MTest::More -MJSON::PP -e 1
	need perl command -v prove
	need libipc-run-perl perl -MIPC::Run -e 1
}

check_pgtap() {
	need_of_postgres "postgresql-$major-pgtap" "$sharedir/extension/pgtap.control"
	need libtap-parser-sourcehandler-pgtap-perl perl -MTAP::Parser::SourceHandler::pgTAP -e 1
}

check_roots() {
	need debootstrap command -v debootstrap
	need perl command -v prove
}

check_ci() {
	need clang command -v clang
	need clang-format-14 command -v clang-format-14
	need shellcheck command -v shellcheck
}

check_instrumented() {
	check_compiler gcc
	check_test
	need bison command -v bison
	need ca-certificates test -e /etc/ssl/certs/ca-certificates.crt
	need flex command -v flex
	need git command -v git
	need perl perl -MOpcode -e 1
	need valgrind command -v valgrind
}

check_package() {
	need build-essential test -e /usr/share/build-essential/list
	need debhelper command -v dh
	need postgresql-server-dev-all test -e /usr/share/perl5/Debian/Debhelper/Sequence/pgxs_loop.pm
}

check_clients() {
	need sysbench command -v sysbench
}

check_plot() {
	need python3-matplotlib /usr/bin/python3 -c 'import matplotlib'
}

# Sets missing, each package once.
find_missing() {
	local part
	missing=()
	PG_CONFIG=$named_pg_config
	if [[ " $* " =~ \ (build|run|pgtap)\  ]]; then
		find_pg_config
	fi
	for part in "$@"; do
		"check_$part"
	done
	mapfile -t missing < <(printf '%s\n' "${missing[@]}" | awk 'NF && !seen[$0]++')
}

# What runs a command as root: nothing, or sudo.
find_root() {
	as_root=()
	[ "$(id -u)" -ne 0 ] || return 0
	command -v sudo >/dev/null ||
		die "neither are you root nor is there sudo to install what is missing: ${missing[*]}"
	as_root=(sudo)
}

update_lists() {
	command -v apt-get >/dev/null ||
		die "no apt-get here; please install what corresponds to these Debian packages: ${missing[*]}"
	find_root
	say "Packages are missing; updating apt's lists"
	"${as_root[@]}" apt-get update -q || warn "apt-get update failed; its old lists may do"
}

# Nothing is installed if apt does not have all of it.
install_packages() {
	local package unknown=()
	for package in "$@"; do
		apt_has "$package" || unknown+=("$package")
	done
	[ "${#unknown[@]}" -eq 0 ] ||
		die "apt has no ${unknown[*]}${PG_CONFIG:+ (PG_CONFIG=$PG_CONFIG)}"
	say "Installing $*"
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get install -q -y --no-install-recommends "$@"
	hash -r
}

install_missing() {
	find_missing "$@"
	if [ "${#missing[@]}" -gt 0 ]; then
		update_lists
		# With newer lists another PostgreSQL may be the one to take.
		find_missing "$@"
		[ -z "${choice_note:-}" ] || say "$choice_note"
		install_packages "${missing[@]}"
		find_missing "$@"
		[ "${#missing[@]}" -eq 0 ] ||
			die "still missing after installation for PostgreSQL $major ($PG_CONFIG): ${missing[*]}"
	elif [ -n "${choice_note:-}" ]; then
		say "$choice_note"
	fi
}

# Those of a distribution may be too old for the examples.
python_drivers=("psycopg[binary]~=3.2" "asyncpg~=0.30" "sqlalchemy~=2.0" "django~=5.2" alembic pandas)

has_python_drivers() {
	PYTHONPATH=$root/.private/drivers /usr/bin/python3 -c \
		'import alembic, asyncpg, django, pandas, psycopg, psycopg_binary, sqlalchemy' 2>/dev/null
}

add_drivers() {
	need default-jdk-headless command -v javac
	need libpostgresql-jdbc-java test -e /usr/share/java/postgresql.jar
	has_python_drivers || need python3-pip /usr/bin/python3 -m pip --version
	if [ "${#missing[@]}" -gt 0 ]; then
		update_lists
		install_packages "${missing[@]}"
	fi
	has_python_drivers || /usr/bin/python3 -m pip install -q --root-user-action ignore \
		--upgrade --target "$root/.private/drivers" "${python_drivers[@]}"
}

# PostgreSQL's own packages; postgresql-common brings the script that has their key.
add_pgdg() {
	local script=/usr/share/postgresql-common/pgdg/apt.postgresql.org.sh
	need postgresql-common test -x "$script"
	need ca-certificates test -e /etc/ssl/certs/ca-certificates.crt
	if [ "${#missing[@]}" -gt 0 ]; then
		update_lists
		install_packages "${missing[@]}"
	fi
	find_root
	"${as_root[@]}" "$script" -y
}

advise() {
	find_missing "$@"
	if [ "${#missing[@]}" -gt 0 ]; then
		echo "On Debian \"tools/setup.sh $*\" installs what is missing: ${missing[*]}"
	else
		echo "All is there${PG_CONFIG:+ with PG_CONFIG=$PG_CONFIG}"
	fi
}

action=install_missing
if [ "${1:-}" = --advise ]; then
	action=advise
	shift
fi
parts=()
[ $# -gt 0 ] || usage
for part in "$@"; do
	case $part in
		pgdg | drivers) [ "$action" = advise ] || "add_$part" ;;
		build | run | device | test | pgtap | roots | ci | instrumented | package | clients | plot)
			parts+=("$part")
			;;
		*) usage ;;
	esac
done
[ "${#parts[@]}" -eq 0 ] || "$action" "${parts[@]}"
