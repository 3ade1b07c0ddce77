#!/bin/bash
# Builds harmonia and installs it into a private copy of the PostgreSQL
# installation, so that neither tests nor demo touch the system's.
#
# usage: tools/private-install.sh DIR
#
# Prints the private directory of programs. PostgreSQL finds its libraries and
# shared files relative to the running program, so it is enough to copy the
# programs and link to the rest.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

[ $# -eq 1 ] || die "usage: $0 DIR"
dir=$(realpath -m "$1")

# Link what is in a directory, but no other version of ours nor what is there already.
link_contents() {
	local from=$1 to=$2 entry
	mkdir -p "$to"
	for entry in "$from"/*; do
		case ${entry##*/} in
			harmonia*) continue ;;
		esac
		[ -e "$to/${entry##*/}" ] || ln -s "$entry" "$to"
	done
}

copy_installation() {
	mkdir -p "$dir$bindir" "$dir$pkglibdir/bitcode" "$dir$sharedir/extension"
	cp "$bindir"/* "$dir$bindir"
	if [ -d "$pkglibdir/bitcode" ]; then
		link_contents "$pkglibdir/bitcode" "$dir$pkglibdir/bitcode"
	fi
	link_contents "$pkglibdir" "$dir$pkglibdir"
	link_contents "$sharedir/extension" "$dir$sharedir/extension"
	link_contents "$sharedir" "$dir$sharedir"
}

build_and_install() {
	local make=(make -C "$root" --no-print-directory PG_CONFIG="$PG_CONFIG")
	# What this is called from may be make itself, with other ideas.
	unset MAKEFLAGS MAKELEVEL MFLAGS
	if ! {
		"${make[@]}" -j "$(nproc)" ${CC:+CC="$CC"} &&
			"${make[@]}" install DESTDIR="$dir"
	} >"$dir/build.log" 2>&1; then
		cat "$dir/build.log" >&2
		die "the build failed"
	fi
	grep 'warning:' "$dir/build.log" >&2 || true
}

check_checkout
find_pg_config
copy_installation
build_and_install
chmod -R a+rX "$dir$bindir"
echo "$dir$bindir"
