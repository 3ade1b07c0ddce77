# Sourced by the scripts beside it, which use what is set here.
# shellcheck shell=bash disable=SC2034

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# What Debian 12 has; used only where no PostgreSQL is installed yet.
default_major=15

say() { printf '==> %s\n' "$*"; }
warn() { printf '%s\n' "$*" >&2; }

die() {
	warn "error: $*"
	exit 1
}

# The programs of a PostgreSQL with sanitizers, pg_config first, leave memory to exit().
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0}

find_pg_config() {
	PG_CONFIG=${PG_CONFIG:-pg_config}
	if command -v "$PG_CONFIG" >/dev/null; then
		major=$("$PG_CONFIG" --version | sed -E 's/[^0-9]*([0-9]+).*/\1/')
		bindir=$("$PG_CONFIG" --bindir)
		pkglibdir=$("$PG_CONFIG" --pkglibdir)
		sharedir=$("$PG_CONFIG" --sharedir)
		pgxs_src=$(dirname "$(dirname "$("$PG_CONFIG" --pgxs)")")
	else
		major=$default_major bindir='' pkglibdir='' sharedir='' pgxs_src=''
	fi
}

# Servers refuse to run as root.
server_user() {
	if [ "$(id -u)" -ne 0 ]; then
		id -un
	elif getent passwd postgres >/dev/null; then
		echo postgres
	else
		echo nobody
	fi
}

# Run a command as the server's user. The directory we stand in may be closed to
# that user, which is why callers go to one that is not first.
as_server_user() {
	if [ "$(id -u)" -eq 0 ]; then
		runuser -u "$(server_user)" -- "$@"
	else
		"$@"
	fi
}

# A directory that only we and the server's user can enter.  Its path is short,
# because socket paths must fit in 107 bytes.
make_private_dir() {
	local dir
	dir=$(mktemp -d "${TMPDIR:-/tmp}/harmonia.XXXXXX")
	chown "$(server_user)" "$dir"
	echo "$dir"
}
