#!/bin/bash
# Makes README.md, one page with machine and versions, plots, targets and tables, from what
# bench/run.sh has left in a folder.
#
# usage: bench/report.sh FOLDER
#
# Plots need matplotlib, which tools/setup.sh installs with Debian's Python.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR/../tools source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools/common.sh"

[ $# -eq 1 ] || die "usage: $0 FOLDER"
folder=$1

rm -f "$folder"/*.svg
if "$root/tools/setup.sh" plot >&2; then
	"$root/bench/plot.py" "$folder"
else
	warn 'No plots without matplotlib'
fi
{
	printf '# Measurements, %s\n\n' "$(basename "$folder")"
	echo 'Made by bench/report.sh from the CSV files here. More is better if a unit ends in "/s", otherwise less.'
	echo '## Machine and versions'
	sed 's/^## /### /' "$folder/conditions.md"
	printf '\n## Plots\n\n'
	for plot in "$folder"/*.svg; do
		[ ! -e "$plot" ] || printf '![%s](%s)\n' "$(basename "$plot" .svg)" "$(basename "$plot")"
	done
	printf '\n## Targets\n\n'
	awk -f "$root/bench/targets.awk" "$root/bench/targets.csv" "$folder"/*.csv
	printf '\n## Figures\n'
	awk -f "$root/bench/tables.awk" "$folder"/*.csv
} >"$folder/README.md"
