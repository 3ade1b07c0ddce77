# Sourced by the scripts beside it, which use what is set here.
# shellcheck shell=bash disable=SC2034

set -euo pipefail
# Otherwise a failure inside $(...) would go on there.
shopt -s inherit_errexit

say() { printf '==> %s\n' "$*"; }
warn() { printf '%s\n' "$*" >&2; }

die() {
	warn "error: $*"
	exit 1
}

# clean_environment: removes variables that lead programs to another server or change what they
# print, and sets a umask that leaves files open to the server's user.  Variables of PostgreSQL with
# an underscore (PG_CONFIG, PG_TEST_EXTRA) are for builds and tests, and stay; all others are for
# clients and servers.  Sets client_variables to the names of what was removed of these.
clean_environment() {
	local name
	client_variables=()
	unset CDPATH PG_COLOR PG_COLORS LANGUAGE
	for name in $(compgen -e PG) $(compgen -e LC_); do
		case $name in
			PG_* | PGXS) ;;
			LC_*) unset "$name" ;;
			*)
				client_variables+=("$name")
				unset "$name"
				;;
		esac
	done
	export LANG=C
	[ "$(LC_ALL=C.UTF-8 locale charmap 2>/dev/null)" != UTF-8 ] || LANG=C.UTF-8
	umask 022
}

clean_environment
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The programs of a PostgreSQL with sanitizers, pg_config first, leave memory to exit().
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0}

# shellcheck source-path=SCRIPTDIR source=postgres.sh
. "$root/tools/postgres.sh"

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

# Makes a directory that belongs to the server's user and is closed to others, but root; prints its
# path, which is short, because paths of sockets must fit in 107 bytes.
make_private_dir() {
	(cd / && as_server_user mktemp -d "${TMPDIR:-/tmp}/harmonia.XXXXXX") ||
		die "no directory can be made in ${TMPDIR:-/tmp}"
}

# check_environment: scripts that build and run servers call this first.  It ends them, with one
# line, if the checkout cannot be written to, and takes another folder for temporary files if
# servers cannot run in TMPDIR's.
check_environment() {
	check_checkout
	choose_temporary_folder
}

# Builds leave objects in the checkout.
check_checkout() {
	local closed
	closed=$(find "$root" -name .git -prune -o \
		\( -type d -o -name '*.[ado]' -o -name '*.bc' -o -name '*.so' -o -name .build-flags \) \
		! -writable -print -quit 2>/dev/null) || true
	[ -z "$closed" ] ||
		die "$closed cannot be written to by $(id -un): copy the checkout to a place of your own, or remove what another user has built in it"
}

choose_temporary_folder() {
	local wanted=${TMPDIR:-/tmp} folder trouble other
	trouble=$(trouble_with_folder "$wanted")
	[ -n "$trouble" ] || return 0
	for folder in /tmp /var/tmp; do
		other=$(trouble_with_folder "$folder")
		[ -z "$other" ] || continue
		warn "Temporary files go to $folder: $wanted $trouble"
		export TMPDIR=$folder
		return 0
	done
	die "$wanted $trouble; name another folder for temporary files as TMPDIR"
}

# Prints why servers cannot be installed and run in a folder, nothing if they can.  A path of a
# socket may have 107 bytes; tests add up to 40.  PostgreSQL's tests put paths into commands and
# lists without quotes.
trouble_with_folder() {
	local folder=$1 trial
	case $folder in
		/*) ;;
		*) echo "is not an absolute path" && return ;;
	esac
	if [[ $folder =~ [^A-Za-z0-9._/+=~@-] ]]; then
		echo "has a space or another character in its path that tests of servers do not quote"
	elif [ "${#folder}" -gt 64 ]; then
		echo "is too long for paths of sockets"
	elif [ ! -d "$folder" ]; then
		echo "is not there"
	elif [ ! -w "$folder" ]; then
		echo "cannot be written to by $(id -un)"
	elif ! trial=$(cd / && as_server_user mktemp -d "$folder/harmonia.XXXXXX" 2>/dev/null); then
		echo "cannot be written to by $(server_user), the user of the server"
	else
		as_server_user cp /bin/true "$trial/try"
		(cd / && as_server_user "$trial/try") 2>/dev/null || echo "does not let programs run (mounted noexec?)"
		rm -rf "$trial"
	fi
}
