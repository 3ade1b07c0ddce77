#!/bin/bash
# Formats C, C++ and CUDA sources as .clang-format says.
#
# usage: tools/format.sh [--check] [FILE...]
#
# Without names, all sources are formatted.  --check changes nothing; it prints what would change, and
# fails if there is something.  Other releases of clang-format lay some lines out differently, so it
# has to be 14, which Debian and Ubuntu have as clang-format-14.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

formatter=${CLANG_FORMAT:-clang-format-14}
action=(-i)
if [ "${1:-}" = --check ]; then
	action=(--dry-run -Werror)
	shift
fi
command -v "$formatter" >/dev/null || die "no $formatter; tools/setup.sh ci installs it"

cd "$root"
if [ $# -eq 0 ]; then
	mapfile -t files < <(find src cuda test bench -name build -prune -o -type f \
		\( -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -print | sort)
	set -- "${files[@]}"
fi
printf '%s\n' "$@" | xargs -P "$(nproc)" -n 20 "$formatter" --style=file "${action[@]}"

# What the formatter leaves alone: comments and strings.
long=$(for file in "$@"; do
	expand -t 4 "$file" | awk -v file="$file" 'length > 100 { print file ":" NR ": longer than 100 columns" }'
done)
[ -z "$long" ] || die "$long"
