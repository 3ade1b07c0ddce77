# Which PostgreSQL to build for and to run; included by common.sh.
# shellcheck shell=bash disable=SC2034,SC2154

mapfile -t supported_majors <"$root/debian/pgversions"
supported="PostgreSQL ${supported_majors[0]} to ${supported_majors[-1]}"
# Where Debian's packages are.
debian_home=/usr/lib/postgresql

# find_pg_config: sets PG_CONFIG, exported, to the pg_config of the PostgreSQL to use, and major,
# bindir, pkglibdir, sharedir, server_headers and pgxs_src to what it says. PG_CONFIG decides if it
# is set; see choose_postgres() otherwise. If what is chosen is to be installed from Debian's
# packages first, these are the places where it will be. choice_note says why it is not simply
# pg_config's, and is empty if it is.
find_pg_config() {
	choice_note=''
	if [ -n "${PG_CONFIG:-}" ]; then
		take_named_postgres
	else
		choose_postgres
	fi
	export PG_CONFIG
	if [ -x "$PG_CONFIG" ]; then
		major=$(major_of "$PG_CONFIG")
		bindir=$("$PG_CONFIG" --bindir)
		pkglibdir=$("$PG_CONFIG" --pkglibdir)
		sharedir=$("$PG_CONFIG" --sharedir)
		server_headers=$("$PG_CONFIG" --includedir-server)
		pgxs_src=$(dirname "$(dirname "$("$PG_CONFIG" --pgxs)")")
	else
		major=$(debian_major "$PG_CONFIG")
		bindir=$debian_home/$major/bin
		pkglibdir=$debian_home/$major/lib
		sharedir=/usr/share/postgresql/$major
		server_headers=/usr/include/postgresql/$major/server
		pgxs_src=$pkglibdir/pgxs/src
	fi
}

take_named_postgres() {
	local path
	if path=$(command -v "$PG_CONFIG") && major_of "$path" >/dev/null; then
		PG_CONFIG=$(realpath -s "$path")
		is_supported "$(major_of "$PG_CONFIG")" ||
			die "PG_CONFIG=$PG_CONFIG is of $("$PG_CONFIG" --version); harmonia is for $supported"
	elif [ -z "$(debian_major "$PG_CONFIG")" ]; then
		die "PG_CONFIG=$PG_CONFIG does not run; name the pg_config of a PostgreSQL"
	else
		is_supported "$(debian_major "$PG_CONFIG")" ||
			die "PG_CONFIG=$PG_CONFIG is none of $supported, which harmonia is for"
	fi
}

# choose_postgres: picks the first of
#
#	pg_config's, or else the newest of Debian's, that has a server and its headers
#	pg_config's, or else the newest of Debian's, that has a server whose headers apt has
#	pg_config's, if it has headers, or is not Debian's
#	the newest that apt has
#
# pg_config alone says little: libpq-dev has one without any server, which knows of none beside.
choose_postgres() {
	local first='' path test
	if path=$(command -v pg_config) && is_supported "$(major_of "$path")"; then
		first=$(realpath -s "$path")
	fi
	for test in is_complete can_be_completed; do
		PG_CONFIG=$(first_that "$test" "$first")
		if [ -n "$PG_CONFIG" ]; then
			note_choice "$first"
			return
		fi
	done
	PG_CONFIG=$first
	if [ -z "$first" ] || { is_of_debian "$first" && ! has_headers "$first"; }; then
		PG_CONFIG=$(newest_of_apt)
		note_choice "$first"
	fi
}

# Sets choice_note if only other servers are installed, or else if pg_config is of another major.
note_choice() {
	local first=$1 used others
	used=$(debian_major "$PG_CONFIG")
	[ -n "$used" ] || return 0
	others=$(installed_majors)
	if [ -n "$others" ] && ! grep -qx "$used" <<<"$others"; then
		choice_note="apt has no headers for the server of PostgreSQL ${others//$'\n'/, }"
	elif [ -n "$first" ] && [ "$(major_of "$first")" != "$used" ]; then
		choice_note="pg_config is of PostgreSQL $(major_of "$first"), whose $(what_lacks "$first") not installed"
	else
		return 0
	fi
	choice_note="Taking PostgreSQL $used: $choice_note (PG_CONFIG=... takes another)"
}

what_lacks() { has_server "$1" && echo "headers are" || echo "server is"; }

# first_that TEST FIRST: which of FIRST and Debian's installations passes; nothing if none does.
first_that() {
	local test=$1 major
	if [ -n "$2" ] && "$test" "$2"; then
		echo "$2"
		return
	fi
	for major in $(installed_majors); do
		if "$test" "$debian_home/$major/bin/pg_config"; then
			echo "$debian_home/$major/bin/pg_config"
			return
		fi
	done
}

# Supported majors of which Debian's server is installed, newest first.
installed_majors() {
	local i
	for ((i = ${#supported_majors[@]} - 1; i >= 0; i--)); do
		[ ! -x "$debian_home/${supported_majors[i]}/bin/postgres" ] || echo "${supported_majors[i]}"
	done
}

has_server() { [ -x "$1" ] && [ -x "$("$1" --bindir)/postgres" ]; }
has_headers() { [ -x "$1" ] && [ -e "$("$1" --includedir-server)/postgres.h" ]; }
is_complete() { has_server "$1" && has_headers "$1"; }
is_of_debian() { [[ $("$1" --bindir) == "$debian_home"/* ]]; }

can_be_completed() {
	has_server "$1" && is_of_debian "$1" && {
		apt_has "postgresql-server-dev-$(major_of "$1")" || ! apt_has_lists
	}
}

major_of() {
	"$1" --version 2>/dev/null | sed -nE 's/^PostgreSQL ([0-9]+).*/\1/p' | grep .
}

# The major that a path of Debian's names, whether or not it is there.
debian_major() { sed -nE "s|^$debian_home/([0-9]+)/bin/pg_config\$|\\1|p" <<<"$1"; }

is_supported() {
	local major
	for major in "${supported_majors[@]}"; do
		[ "$major" != "$1" ] || return 0
	done
	return 1
}

apt_has() { [[ $(apt-cache policy "$1" 2>/dev/null) == *"Candidate: "[!\(]* ]]; }

# Without lists apt knows of no package: "apt-get update" was never run, or they were removed.
apt_has_lists() { compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; }

# Where the newest PostgreSQL that apt has will have its pg_config.  Without lists, that of the
# newest of all.
newest_of_apt() {
	local i major
	for ((i = ${#supported_majors[@]} - 1; i >= 0; i--)); do
		major=${supported_majors[i]}
		if ! apt_has_lists || { apt_has "postgresql-$major" && apt_has "postgresql-server-dev-$major"; }; then
			echo "$debian_home/$major/bin/pg_config"
			return
		fi
	done
	die "neither is a PostgreSQL installed nor does apt have one of ${supported_majors[0]} to ${supported_majors[-1]}: install one with its server headers, and name its pg_config as PG_CONFIG"
}
