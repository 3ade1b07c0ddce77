#!/bin/bash
# Installs what is missing to build, test or try harmonia, by apt.
#
# usage: tools/setup.sh [build] [run] [test] [pgtap] [clients] [plot]
#
#   build   compiler and PostgreSQL's server headers
#   run     PostgreSQL server and client programs
#   test    what the test suites need besides
#   pgtap   what the suite pgtap needs besides these
#   clients the client of bench/clients.sh
#   plot    what draws the benchmarks' plots
#
# Does nothing, and needs no privileges, if all is there.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

missing=()

need() {
	local package=$1
	shift
	"$@" >/dev/null 2>&1 || missing+=("$package")
}

check_build() {
	need gcc command -v gcc
	need make command -v make
	need libc6-dev test -e /usr/include/stdio.h
	need "postgresql-server-dev-$major" test -e "$pgxs_src/makefiles/pgxs.mk"
}

check_run() {
	need "postgresql-$major" test -x "$bindir/postgres" -a -x "$bindir/pgbench"
	need "postgresql-client-$major" test -x "$bindir/psql"
}

check_test() {
	need perl command -v prove
	need libipc-run-perl perl -MIPC::Run -e 1
}

check_pgtap() {
	need "postgresql-$major-pgtap" test -e "$sharedir/extension/pgtap.control"
	need libtap-parser-sourcehandler-pgtap-perl perl -MTAP::Parser::SourceHandler::pgTAP -e 1
}

check_clients() {
	need sysbench command -v sysbench
}

check_plot() {
	need python3-matplotlib /usr/bin/python3 -c 'import matplotlib'
}

find_missing() {
	find_pg_config
	missing=()
	local part
	for part in "$@"; do
		"check_$part"
	done
}

install_packages() {
	local as_root=()
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null ||
			die "these packages are missing, and neither are you root nor is there sudo: $*"
		as_root=(sudo)
	fi
	command -v apt-get >/dev/null ||
		die "no apt-get here; please install what corresponds to these Debian packages: $*"

	say "Installing $*"
	"${as_root[@]}" apt-get update -q
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get install -q -y --no-install-recommends "$@"
}

for part in "$@"; do
	case $part in
		build | run | test | pgtap | clients | plot) ;;
		*) die "usage: $0 [build] [run] [test] [pgtap] [clients] [plot]" ;;
	esac
done

find_missing "$@"
if [ "${#missing[@]}" -gt 0 ]; then
	install_packages "${missing[@]}"
	hash -r
	find_missing "$@"
	[ "${#missing[@]}" -eq 0 ] ||
		die "still missing after installation for PostgreSQL $major ($PG_CONFIG): ${missing[*]}"
fi
