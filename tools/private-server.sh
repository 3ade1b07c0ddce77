#!/bin/bash
# A PostgreSQL server of one's own, for tests, demo and benchmarks.
#
# usage: tools/private-server.sh start DIR [BINDIR] [-c NAME=VALUE]...
#        tools/private-server.sh stop DIR [-m MODE]
#
# "start" creates DIR/data if it is not there, starts a server that listens on a
# socket in DIR only, and prints shell commands that point clients at it, and at nothing
# else that variables of libpq may name:
#
#	dir=$(mktemp -d)
#	eval "$(tools/private-server.sh start "$dir" -c shared_buffers=1GB)"
#	psql -c 'SELECT version()'
#	tools/private-server.sh stop "$dir" && rm -rf "$dir"
#
# BINDIR is what tools/private-install.sh printed; pg_config's without it.
# DIR is given to the server's user, if root starts it, and closed to others:
# inside, everybody is trusted.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
	sed -n '2,19s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
	exit 2
}

create_cluster() {
	as_server_user "$bindir/initdb" -D "$dir/data" -U postgres --auth=trust \
		--encoding=UTF8 --locale=C --no-sync >"$dir/initdb.log" 2>&1 ||
		{
			cat "$dir/initdb.log" >&2
			die "initdb failed"
		}
	as_server_user tee -a "$dir/data/postgresql.conf" >/dev/null <<-END
		listen_addresses = ''
		unix_socket_directories = '$dir'
		max_connections = 50
	END
}

start() {
	local options='' bindir=''
	while [ $# -gt 0 ]; do
		case $1 in
			-c)
				options+=" -c ${2:?-c needs NAME=VALUE}"
				shift 2
				;;
			-*) usage ;;
			*)
				bindir=$1
				shift
				;;
		esac
	done
	if [ -z "$bindir" ]; then
		find_pg_config
	fi
	[ -x "$bindir/postgres" ] || die "no PostgreSQL server in $bindir"

	[ "$(id -u)" -ne 0 ] || chown "$(server_user)" "$dir"
	chmod 700 "$dir"
	cd "$dir"
	as_server_user test -w "$dir" 2>/dev/null || die "$dir is in a folder that is closed to $(server_user)"
	[ -e "$dir/data/PG_VERSION" ] || create_cluster
	echo "$bindir" >"$dir/bindir"
	as_server_user "$bindir/pg_ctl" -D "$dir/data" -l "$dir/server.log" -w -t 120 -s \
		-o "$options" start >&2 ||
		{
			tail -n 30 "$dir/server.log" >&2
			die "the server did not start"
		}

	[ "${#client_variables[@]}" -eq 0 ] || echo "unset ${client_variables[*]}"
	printf 'export PGHOST=%q PGPORT=5432 PGUSER=postgres PGDATABASE=postgres\n' "$dir"
	printf 'export PATH=%q:%q\n' "$bindir" "$PATH"
}

stop() {
	local mode=fast
	if [ "${1:-}" = -m ]; then
		mode=$2
	fi
	cd "$dir"
	[ -e data/postmaster.pid ] || return 0
	as_server_user "$(cat bindir)/pg_ctl" -D "$dir/data" -m "$mode" -w -s stop
}

[ $# -ge 2 ] || usage
command=$1
dir=$(realpath -m "$2")
shift 2
case $command in
	start) start "$@" ;;
	stop) stop "$@" ;;
	*) usage ;;
esac
