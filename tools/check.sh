#!/bin/bash
# Runs the test suites on private servers.
#
# usage: tools/check.sh [--slow | SUITE...]
#
#   packaging  test/packaging.pl  versions are the same everywhere
#   setup      test/setup       these scripts in odd environments, and what make builds again
#   unit       test/unit        the tree engine, in C
#   device     cuda/test        the device library and its daemon, on the host device
#   library    cuda/test        the first half of that
#   regress    sql, expected    pg_regress
#   isolation  test/specs       pg_isolation_regress
#   tap        test/t           crashes, replicas, concurrency
#   faults     test/t-faults    errors and crashes at each step, in an extension
#                               built with FAULT_POINTS, assertions and SMALL_LIMITS
#   pgtap      test/pgtap       examples of use
#   docs       test/docs        the blocks of README and manual, in order
#   engine     test/engine      the batch lookup engine, called from SQL
#   slow       test/t-slow      like tap, but takes minutes; and tests of tap that have a long form
#   races      test/t-races     sessions that are stopped in the middle of a step, in such
#                               an extension; takes minutes
#   sanitizers test/unit, cuda/test  both, built with sanitizers; takes a quarter of an hour
#   bench      bench            benchmarks in SQL, at sizes that tell nothing
#   roots      test/roots       set-up on newly installed systems; takes long, and wants root and
#                               a network
#
# All but slow, races, sanitizers, bench and roots, which are --slow, are run if none is named; then setup,
# unit, library and docs, which keep one processor busy, run beside the first of the others, and
# device has the daemon alone.  KEEP=1 keeps
# the working directory; PROVE_FLAGS goes to prove; TESTS="test/t/*crash*" limits
# the suites of TAP tests, REGRESS="plan scan" that of regression tests.  JOBS is the number of
# TAP tests at a time (1).
#
# GPU=on has the servers of regress, isolation and tap look all batches up on a GPU, and
# device test that, too; GPU=host does the same with the host device.  BINDIR is that of a
# PostgreSQL with the extension and the daemon installed, so that nothing is built.  DEVICE=no tests an
# extension without the device, as "make DEVICE=no" builds it: what only devices do is skipped, and so
# are the suites device, faults and engine if none is named.
#
# If the PostgreSQL was built by tools/instrumented-postgres.sh, what sanitizers or valgrind
# report fails the suite; unit, device and the daemon are built with sanitizers as well.

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

suites=()
# Those that keep one processor busy, and run beside the others; and those that look at the clock, and run after them.
beside=()
alone=()
beside_pid=''
unavailable=()
needs_extension=''
# Makefiles see the same variable.
export DEVICE=${DEVICE:-}
without_device=''
[ "$DEVICE" != no ] || without_device=yes
# Logs of failed suites go here, because the working directory is removed.
log_keep=$root/.private/check-logs

clean_up() {
	local status=$?
	trap - EXIT
	[ -z "$beside_pid" ] || kill -- "-$beside_pid" 2>/dev/null || true
	if [ -d "$dir/pgtap" ]; then
		"$root/tools/private-server.sh" stop "$dir/pgtap" -m immediate || true
	fi
	if [ -n "${KEEP:-}" ]; then
		say "Kept $dir"
	else
		rm -rf "$dir"
	fi
	exit "$status"
}

# The daemon, with the host device alone if that is all that the tests need, or what is named in
# its place.
install_daemon() {
	local name=${2:-harmonia_gpud}
	if [ -n "$without_device" ]; then
		return
	fi
	if [ "${GPU:-}" = on ]; then
		make -s -j "$(nproc)" -C "$root/cuda"
		install "$root/cuda/build/harmonia_gpud" "$("$1/pg_config" --pkglibdir)"
		return
	fi
	if ! command -v "${CXX:-g++}" >/dev/null; then
		warn "no C++ compiler: tests of the device are skipped"
		return
	fi
	local build=build/host sanitize=()
	if [ -n "$sanitizers" ]; then
		build=build/sanitize sanitize=(SANITIZE=1)
	fi
	make -s -j "$(nproc)" -C "$root/cuda" NVCC= build="$build" "${sanitize[@]}" "$build/$name"
	install "$root/cuda/$build/$name" "$("$1/pg_config" --pkglibdir)/harmonia_gpud"
}

# Sanitizers and valgrind write a file for each process that they object to; valgrind
# makes empty ones for the others.  Leaks are not looked for, because memory contexts are
# not freed at exit; nor uses of a stack after return, because PostgreSQL 15's check of the stack's
# depth cannot do with stacks elsewhere.  Before 16, servers have overwritten the environment
# when the undefined behaviour sanitizer looks for its options, so that it writes to their logs.
prepare_reports() {
	as_server_user mkdir -m 1777 "$dir/reports"
	sanitizers=$("$PG_CONFIG" --cflags | grep -o -e '-fsanitize[^ ]*' || true)
	export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:log_path=$dir/reports/asan
	export UBSAN_OPTIONS=print_stacktrace=1:log_path=$dir/reports/ubsan
	export VALGRIND_REPORTS=$dir/reports
}

no_reports() {
	local reports
	mapfile -t reports < <(find "$dir/reports" -type f -size +0)
	if [ "${#reports[@]}" -gt 0 ]; then
		head -n 60 "${reports[@]}"
		find "$dir/reports" -type f -delete
		return 1
	fi
	if [ -n "$sanitizers" ] && grep -r --include='*.log' 'runtime error:' "$dir"; then
		return 1
	fi
}

install_needs() {
	local suite needs=(build run test)
	for suite in "${suites[@]}"; do
		[ "$suite" != roots ] || needs+=(roots)
		[ "$suite" != bench ] || needs+=(clients plot)
	done
	"$root/tools/setup.sh" "${needs[@]}"
	[[ " ${suites[*]} " == *" pgtap "* ]] || return 0
	# Not every PostgreSQL has a pgTAP.  Only where it is asked for by name is that a failure.
	if ! "$root/tools/setup.sh" pgtap; then
		[ -n "$all_suites" ] || die "there is no pgTAP for the suite pgtap"
		unavailable=(pgtap)
	fi
}

prepare() {
	local suite
	check_environment
	if [ -n "${BINDIR:-}" ]; then
		PG_CONFIG=$BINDIR/pg_config
	else
		install_needs
	fi
	find_pg_config
	system_pg_config=$PG_CONFIG
	private_bindir=''
	dir=$(make_private_dir)
	trap clean_up EXIT
	trap 'exit 130' INT TERM
	prepare_reports

	for suite in "${suites[@]}" "${beside[@]}" "${alone[@]}"; do
		case $suite in
			packaging | unit | library | device | sanitizers | faults | races | setup | roots) ;; # which can do without
			*) needs_extension=yes ;;
		esac
	done
	if [ -n "${BINDIR:-}" ]; then
		private_bindir=$BINDIR
		export PATH=$private_bindir:$PATH
	elif [ -n "$needs_extension" ]; then
		say "Building and installing into $dir"
		private_bindir=$("$root/tools/private-install.sh" "$dir/install")
		export PATH=$private_bindir:$PATH
		install_daemon "$private_bindir"
	fi

	# Suites run in a copy that the server's user can read and write.
	mkdir "$dir/work"
	local part
	for part in sql expected packaging test; do
		cp -R "$root/$part" "$dir/work"
	done
	chown -R "$(server_user)" "$dir/work"
	cd "$dir/work"
}

# Names of files without directory and ending, one a line.
names() {
	local ending=$1 file
	shift
	for file in "$@"; do
		if [ -e "$file" ]; then
			basename "$file" "$ending"
		fi
	done
}

# Options and tests for pg_regress and its like; the servers' settings are those
# that tests must not depend on, or that make them quick or leave less to chance; and btrees are
# PostgreSQL's alone where answers are compared with theirs.
temp_config() {
	cat <<-'END'
		shared_buffers = 64MB
		max_wal_size = 1GB
		max_prepared_transactions = 10
		autovacuum = off
		log_min_messages = warning
		jit = off
		harmonia.enable_btree_lookup = off
	END
	if [ -n "${GPU:-}" ]; then
		cat <<-END
			shared_preload_libraries = 'harmonia'
			harmonia.gpu = $GPU
			harmonia.force_device = on
		END
	fi
}

# Whether outputs are as expected but for what EXPLAIN says of the device.
differs_by_device_alone() {
	local input=$1 output=$2 file name
	for file in "$output"/results/*.out; do
		name=$(basename "$file")
		diff -u <(without_device <"$input/expected/$name") <(without_device <"$file") || return 1
	done
}

without_device() {
	sed -E '/Device|CPU Reason|Re-synced|Bytes (to|from)|^ *Batches: [0-9]+  Keys|^ *Heap Blocks: [0-9]+$|^\([0-9]+ rows?\)$/d'
}

run_pg_regress() {
	local program=$1 input=$2 output=$3
	shift 3
	local expected=()
	if [ "$major" -ge 16 ]; then
		expected=(--expecteddir="$input")
	fi
	as_server_user mkdir -p "$output"
	temp_config >"$dir/temp.conf"
	if as_server_user "$program" --bindir="$private_bindir" \
		--inputdir="$input" "${expected[@]}" --outputdir="$output" \
		--temp-instance="$output/instance" --temp-config="$dir/temp.conf" \
		--no-locale --encoding=UTF8 --load-extension=harmonia "$@"; then
		return 0
	fi
	if [ -n "${GPU:-}" ] && differs_by_device_alone "$input" "$output"; then
		say "What differs is what EXPLAIN says of the device"
		return 0
	fi
	cat "$output/regression.diffs" 2>/dev/null ||
		tail -n 50 "$output"/log/*.log || true
	return 1
}

run_prove() {
	# shellcheck disable=SC2086
	as_server_user env PATH="$PATH" prove ${PROVE_FLAGS:-} "$@"
}

# For suites about the checkout itself.
prove_in_checkout() {
	# shellcheck disable=SC2086
	(cd "$root" && PG_CONFIG=$system_pg_config prove ${PROVE_FLAGS:-} "$@")
}

run_packaging() { prove_in_checkout test/packaging.pl; }
run_setup() { prove_in_checkout test/setup/*.pl; }
run_roots() {
	# shellcheck disable=SC2086
	prove_in_checkout -I test/roots ${TESTS:-test/roots/*.pl}
}

# The tests in C of a folder, with sanitizers.
sanitize() {
	ASAN_OPTIONS='' make -C "$root/$1" --no-print-directory ${CC:+CC="$CC"} sanitize
}

run_sanitizers() {
	local -x HARMONIA_LENGTH=${HARMONIA_LENGTH:-long}
	sanitize test/unit && sanitize cuda
}

run_unit() {
	local programs
	if [ -n "$sanitizers" ]; then
		sanitize test/unit
		return
	fi
	make -C "$root/test/unit" --no-print-directory ${CC:+CC="$CC"} || return 1
	mapfile -t programs < <(cd "$root/test/unit" && find . -maxdepth 1 -name 'test_*' -type f -perm -u+x)
	if [ "${#programs[@]}" -eq 0 ]; then
		warn "test/unit built no test"
		return 1
	fi
	# These need no server, so the user who built them can run them.  prove splits paths at
	# spaces.
	# shellcheck disable=SC2086
	(cd "$root/test/unit" && prove ${PROVE_FLAGS:-} --exec '' "${programs[@]}")
}

# All of it, but what the suite library has tested already.
run_device() {
	local goal=check
	[ -z "$all_suites" ] || goal=check-daemon
	[ "${GPU:-}" != on ] || goal=check-cuda
	if [ -n "$sanitizers" ]; then
		sanitize cuda
		return
	fi
	make -C "$root/cuda" --no-print-directory ${CC:+CC="$CC"} "$goal"
}

run_library() {
	[ -n "$sanitizers" ] || make -C "$root/cuda" --no-print-directory ${CC:+CC="$CC"} check-library
}

run_regress() {
	local tests
	read -r -a tests <<<"${REGRESS:-$(names .sql sql/*.sql | grep -v '^harmonia--' | tr '\n' ' ')}"
	run_pg_regress "$pgxs_src/test/regress/pg_regress" . "$PWD/results_regress" "${tests[@]}"
}

run_isolation() {
	local tests
	mapfile -t tests < <(names .spec test/specs/*.spec)
	run_pg_regress "$pgxs_src/test/isolation/pg_isolation_regress" test \
		"$PWD/results_isolation" "${tests[@]}"
}

# run_tap_tests TEST...: or those that TESTS names instead.  PostgreSQL::Test::Cluster wants
# these variables: 15 TESTDIR, 16 and later the next two.
run_tap_tests() {
	local -x TESTDIR=$PWD TESTDATADIR=$PWD/tmp_check TESTLOGDIR=$PWD/tmp_check/log
	local -x PG_REGRESS=$pgxs_src/test/regress/pg_regress
	local log
	local tests=("$@")
	if [ -n "${TESTS:-}" ]; then
		# shellcheck disable=SC2206
		tests=($TESTS)
	fi
	as_server_user rm -rf tmp_check
	if run_prove -j "${JOBS:-1}" -I "$pgxs_src/test/perl" -I test/perl --failures "${tests[@]}"; then
		return 0
	fi
	for log in tmp_check/log/regress_log_*; do
		if grep -q 'not ok\|Bail out\|died' "$log" || ! grep -q '1\.\.[0-9]' "$log"; then
			printf -- '--- %s\n' "$log"
			tail -n 40 "$log"
		fi
	done
	return 1
}

# The extension of the suites faults and races is built from a copy, because its objects differ; -O1
# builds in three quarters of the time.  In the place of a GPU the daemon has a device that does wrong as
# the environment says.  The file "bindir" says that all this is there.
build_faults() {
	local entry bindir
	[ ! -e "$dir/faults/bindir" ] || return 0
	mkdir -p "$dir/faults/debian"
	for entry in Makefile harmonia.control sql src tools debian/pgversions; do
		cp -R "$root/$entry" "$dir/faults/$entry"
	done
	bindir=$(PG_CONFIG=$system_pg_config FAULT_POINTS=1 SMALL_LIMITS=1 COPT=-O1 \
		"$dir/faults/tools/private-install.sh" "$dir/faults/install") || return 1
	install_daemon "$bindir" faulty_gpud || return 1
	echo "$bindir" >"$dir/faults/bindir"
}

run_with_faults() {
	build_faults || return 1
	PATH=$(cat "$dir/faults/bindir"):$PATH run_tap_tests "$@"
}

run_faults() { run_with_faults test/t-faults/*.pl; }
run_races() { run_with_faults test/t-races/*.pl; }

run_tap() {
	local tests=(test/t/*.pl)
	if [ -n "$without_device" ]; then
		mapfile -t tests < <(printf '%s\n' "${tests[@]}" | grep -v '/04[0-9]_')
	fi
	run_tap_tests "${tests[@]}"
}

run_slow() {
	local -x HARMONIA_LENGTH=${HARMONIA_LENGTH:-long}
	# shellcheck disable=SC2046
	run_tap_tests test/t-slow/*.pl $(grep -l 'test_length(' test/t/*.pl)
}

run_engine() {
	make -s -C "$root/test/engine" ${CC:+CC="$CC"} \
		PG_CONFIG="$system_pg_config" install DESTDIR="$dir/install" || return 1
	as_server_user rm -rf tmp_check
	as_server_user mkdir -p results_engine
	run_pg_regress "$pgxs_src/test/regress/pg_regress" test/engine "$PWD/results_engine" engine || return 1
	TESTS='' run_tap_tests test/engine/t/*.pl
}

run_pgtap() {
	mkdir "$dir/pgtap"
	(
		settings=$("$root/tools/private-server.sh" start "$dir/pgtap" "$private_bindir" -c fsync=off)
		eval "$settings"
		# shellcheck disable=SC2086
		pg_prove ${PROVE_FLAGS:-} --ext .sql test/pgtap/*.sql
	) || return 1
	"$root/tools/private-server.sh" stop "$dir/pgtap"
}

# Blocks of the pages run in a copy of the sources in which the server's user can build.
run_docs() {
	mkdir "$dir/docs"
	tar -C "$root" --exclude=./.git --exclude=./.private --exclude=./cuda/build -cf - . | tar -C "$dir/docs" -xf -
	local -x PYTHONPATH=${PYTHONPATH:-} PYTHON=${PYTHON:-python3}
	# By tools/setup.sh drivers.
	if [ -d "$root/.private/drivers" ]; then
		cp -R "$root/.private/drivers" "$dir/drivers"
		PYTHONPATH=$dir/drivers PYTHON=/usr/bin/python3
	fi
	chown -R "$(server_user)" "$dir/docs"
	(cd "$dir/docs" && PG_CONFIG=$system_pg_config run_prove test/docs/pages.pl)
}

# Benchmarks in SQL run to their end, and record a figure for each of their targets but those
# that want millions of keys.
run_bench() {
	local missing
	BINDIR=$private_bindir RESULTS=$dir/bench ROWS=30000 RUNS=1 SECONDS_A_RUN=0 WAIT_SECONDS=2 SHAPES=EXISTS PARTITION_COUNTS='1 8' \
		"$root/bench/run.sh" index sizes lookup answers etl shapes parallel updates wal dead clients foreign partitions versions >"$dir/bench.log" 2>&1 || {
		tail -n 50 "$dir/bench.log"
		return 1
	}
	# Answers are compared with what there may not be here.
	missing=$(grep 'not measured.*bench/[a-z]*[.]sh' "$dir/bench/README.md" | grep -v ' M keys\|bench/answers[.]sh') || true
	[ -z "$missing" ] || {
		printf 'no figures for:\n%s\n' "$missing"
		return 1
	}
	# The page at the end has all that a reader needs.
	grep -q '^- PostgreSQL' "$dir/bench/README.md" && grep -q '[.]svg)$' "$dir/bench/README.md"
}

# Whether there is any test of a suite.
has_tests() {
	case $1 in
		packaging) compgen -G "$root/test/packaging.pl" ;;
		unit) compgen -G 'test/unit/Makefile' ;;
		library | device) compgen -G "$root/cuda/test/*.c" ;;
		regress) names .sql sql/*.sql | grep -v '^harmonia--' ;;
		isolation) compgen -G 'test/specs/*.spec' ;;
		tap) compgen -G 'test/t/*.pl' ;;
		faults) compgen -G 'test/t-faults/*.pl' ;;
		pgtap) compgen -G 'test/pgtap/*.sql' ;;
		docs) compgen -G 'test/docs/*.pl' ;;
		engine) compgen -G 'test/engine/sql/*.sql' ;;
		slow) compgen -G 'test/t-slow/*.pl' ;;
		races) compgen -G 'test/t-races/*.pl' ;;
		bench) compgen -G "$root/bench/run.sh" ;;
		sanitizers) compgen -G "$root/test/unit/Makefile" ;;
		setup) compgen -G "$root/test/setup/*.pl" ;;
		roots) compgen -G "$root/test/roots/*.pl" ;;
		*) die "no such suite: $1" ;;
	esac >/dev/null
}

keep_logs() {
	local from
	case $1 in
		regress | isolation) from=$PWD/results_$1 ;;
		tap | faults | races | slow) from=$PWD/tmp_check/log ;;
		engine) from=$([ -d tmp_check/log ] && echo "$PWD/tmp_check/log" || echo "$PWD/results_engine") ;;
		pgtap) from=$dir/pgtap/server.log ;;
		*) return 0 ;;
	esac
	rm -rf "${log_keep:?}/$1"
	mkdir -p "$log_keep/$1"
	rm -rf "$from/instance"
	cp -R "$from" "$log_keep/$1" || true
	# Other failures often only follow from these.
	grep -rE 'PANIC:|TRAP:|terminated by signal' "$log_keep/$1" | head -n 20 || true
}

# A line for each suite is kept in a file, because some run in a process of their own.
run_suite() {
	local suite=$1 start=$SECONDS outcome=passed
	if [[ " ${unavailable[*]} " == *" $suite "* ]]; then
		outcome='not run: what it needs is not to be had'
	elif ! has_tests "$suite"; then
		outcome='no tests'
	else
		say "Suite $suite, after $SECONDS s"
		"run_$suite" || outcome=FAILED
		no_reports || outcome=FAILED
		[ "$outcome" = passed ] || keep_logs "$suite"
		outcome="$outcome in $((SECONDS - start)) s"
	fi
	printf '%-10s %s\n' "$suite" "$outcome" >>"$dir/summary"
}

run_suites() {
	local suite
	for suite in "$@"; do
		run_suite "$suite"
	done
}

run_beside() {
	run_suites "${beside[@]}"
	# If that fails, the suite says so.
	if [[ " ${alone[*]} " == *" faults "* ]]; then
		build_faults || true
	fi
}

# Runs the suites of $beside in a process group of their own, which ends with this script; what they print is shown when
# they have ended.  They have a little less to do than the others, so that they build for the suite
# faults, too.
run_side_by_side() {
	local status=0
	set -m
	run_beside >"$dir/beside.log" 2>&1 </dev/null &
	beside_pid=$!
	set +m
	run_suites "${suites[@]}"
	wait "$beside_pid" || status=$?
	beside_pid=''
	cat "$dir/beside.log"
	[ "$status" = 0 ] || die "one of these suites broke off: ${beside[*]}"
}

all_suites=''
case ${1:-} in
	--slow) suites=(slow races sanitizers bench roots) ;;
	-*) die "usage: $0 [--slow | SUITE...]" ;;
	'')
		all_suites=yes
		beside=(setup unit library docs)
		suites=(packaging regress isolation pgtap engine)
		alone=(device tap faults)
		if [ -n "$without_device" ]; then
			beside=(setup unit docs) suites=(packaging regress isolation pgtap) alone=(tap)
		fi
		;;
	*) suites=("$@") ;;
esac

prepare
# With sanitizers each suite looks for reports, and would find those of others.
if [ "$(nproc)" = 1 ] || [ -n "$sanitizers" ]; then
	run_suites "${beside[@]}" "${suites[@]}"
else
	run_side_by_side
fi
run_suites "${alone[@]}"

say "PostgreSQL $("$PG_CONFIG" --version | cut -d' ' -f2), $(nproc) processors"
cat "$dir/summary"
failures=$(grep -c ' FAILED ' "$dir/summary" || true)
if [ "$failures" -gt 0 ]; then
	die "$failures suite(s) failed; logs are in $log_keep"
fi
