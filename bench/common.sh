# Included by the scripts here: a private server of their own, SQL, medians.
# The script sets $root by including tools/common.sh before.

# clean_up: stops the server and removes its directory; for traps.
clean_up() {
	local status=$?
	trap - EXIT
	trap '' INT TERM
	"$root/tools/private-server.sh" stop "$dir" -m immediate || true
	rm -rf "$dir"
	exit "$status"
}

# sql [ARGUMENT...]: psql's answer, under the settings in $options.
options=
sql() {
	PGOPTIONS="-c client_min_messages=warning $options" psql -X -A -t -q -v ON_ERROR_STOP=1 "$@"
}

median() {
	sort -g | awk '{ v[NR] = $1 } END { print (NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2) }'
}

# start_server MEGABYTES [-c NAME=VALUE]...: builds the extension and starts a server with
# so much of shared buffers, in $dir, that lives as long as the script.  BINDIR, if set, is
# that of a PostgreSQL which has the extension, so that nothing is built.
start_server() {
	local memory=$1 programs=${BINDIR:-} settings
	shift
	[ -n "$programs" ] || "$root/tools/setup.sh" build run
	find_pg_config
	dir=$(make_private_dir)
	trap clean_up EXIT
	trap 'exit 130' INT TERM

	if [ -z "$programs" ]; then
		say "Building and installing into $dir"
		programs=$("$root/tools/private-install.sh" "$dir/install")
	fi
	unset PGHOSTADDR PGOPTIONS PGSERVICE PGPASSWORD PGDATA
	settings=$("$root/tools/private-server.sh" start "$dir" "$programs" \
		-c "shared_buffers=${memory}MB" -c max_wal_size=100GB -c checkpoint_timeout=1h \
		-c maintenance_work_mem=1GB -c autovacuum=off -c fsync=off -c jit=off \
		-c random_page_cost=1.1 "$@")
	eval "$settings"
	sql -c 'CREATE EXTENSION harmonia'
}
