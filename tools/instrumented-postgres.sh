#!/bin/bash
# Builds a PostgreSQL that finds errors in memory, for tools/check.sh.
#
# usage: tools/instrumented-postgres.sh sanitizers|valgrind SOURCE PREFIX
#
#   sanitizers  address and undefined behaviour; what is built for it with PGXS has
#               them as well
#   valgrind    tells valgrind about its memory contexts; its server runs under it
#
# SOURCE is the unpacked source of a PostgreSQL release, which stays as it is.
# PREFIX, where it is installed, must be open to other users if root builds it.
# Both have assertions.  Afterwards
#
#	PG_CONFIG=PREFIX/bin/pg_config tools/check.sh regress isolation tap faults
#
# fails with what sanitizers or valgrind have to say.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# No exception is needed, not even for alignment.
sanitizer_flags="-fsanitize=address,undefined -fno-sanitize-recover=all"

build() {
	local flags=$1
	cd "$build_dir"
	"$source_dir/configure" -q --prefix="$prefix" --enable-cassert --enable-debug \
		--enable-tap-tests --without-readline --without-icu --without-zlib \
		CFLAGS="-O1 -g -fno-omit-frame-pointer $flags"
	# This may be called from make, with other ideas.
	unset MAKEFLAGS MAKELEVEL MFLAGS
	make -s -j "$(nproc)" install
	make -s -j "$(nproc)" -C contrib install
}

# initdb and pg_ctl run the server's program for a moment each, where valgrind would
# take minutes and find nothing of ours.
wrap_in_valgrind() {
	command -v valgrind >/dev/null || die "there is no valgrind"
	cp "$source_dir/src/tools/valgrind.supp" "$prefix/share"
	mv "$prefix/bin/postgres" "$prefix/bin/postgres-bare"
	cat >"$prefix/bin/postgres" <<-END
		#!/bin/bash
		bare=\$(dirname "\$0")/postgres-bare
		case " \$* " in
			*" --boot "* | *" --single "* | *" --check "* | *" -C "* | *" -V "* | *" --version "*)
				exec "\$bare" "\$@" ;;
		esac
		exec valgrind --quiet --leak-check=no --num-callers=30 \\
			--suppressions="$prefix/share/valgrind.supp" \\
			--log-file="\${VALGRIND_REPORTS:-/tmp}/valgrind.%p" "\$bare" "\$@"
	END
	chmod 755 "$prefix/bin/postgres"
}

[ $# -eq 3 ] || die "usage: $0 sanitizers|valgrind SOURCE PREFIX"
source_dir=$(realpath "$2")
prefix=$(realpath -m "$3")
[ -x "$source_dir/configure" ] || die "there is no source of PostgreSQL in $source_dir"
build_dir=$(mktemp -d)
trap 'rm -rf "$build_dir"' EXIT

case $1 in
	sanitizers) build "$sanitizer_flags" ;;
	valgrind)
		build "-DUSE_VALGRIND"
		wrap_in_valgrind
		;;
	*) die "usage: $0 sanitizers|valgrind SOURCE PREFIX" ;;
esac
