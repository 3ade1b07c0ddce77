/*
 * client.c
 *		A daemon under test, and its clients.
 */
#define _GNU_SOURCE
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * How long to wait for what must happen, long enough for valgrind; and for what must
 * not happen.
 */
#define PATIENCE_MS 60000
#define SILENCE_MS 100

const char *daemon_devices = NULL;

static char daemon_path[4096];
static char folder[] = "/tmp/harmonia_gpud.XXXXXX";
static pid_t owner;

static void
check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static void
leave_folder(void)
{
	if (getpid() != owner)
		return;
	unlink(HP_SOCKET);
	unlink("log");
	rmdir("pg_stat_tmp");
	rmdir(folder);
}

double
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec * 1000 + (double) now.tv_nsec / 1e6;
}

void
enter_folder(const char *argv_daemon)
{
	check(realpath(argv_daemon, daemon_path) != NULL, argv_daemon);
	check(mkdtemp(folder) != NULL && chdir(folder) == 0 && mkdir("pg_stat_tmp", 0700) == 0, folder);
	owner = getpid();
	atexit(leave_folder);
	signal(SIGPIPE, SIG_IGN);
}

void
print_log(void)
{
	FILE *log = fopen("log", "r");
	char line[1024];
	char last[1024] = "";

	while (log != NULL && fgets(line, sizeof(line), log) != NULL)
	{
		if (strcmp(line, last) != 0)
			printf("# %s", line);
		strcpy(last, line);
	}
	if (log != NULL)
		fclose(log);
}

Daemon
start_daemon(const char *device, const char *memory, const char *host_memory)
{
	Daemon daemon;
	int ends[2];

	memset(&daemon, 0, sizeof(daemon));
	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
	daemon.control = ends[0];
	daemon.pid = fork();
	check(daemon.pid >= 0, "fork");
	if (daemon.pid == 0)
	{
		int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
		int control = fcntl(ends[1], F_DUPFD, 10);

		/* Leave other descriptors open, as a server may. */
		if (log < 0 || control < 0 || dup2(log, STDERR_FILENO) < 0 || dup2(log, 20) < 0 ||
			dup2(control, HP_CONTROL_FD) < 0)
			_exit(3);
		if (daemon_devices != NULL)
			execl(daemon_path, daemon_path, daemon_devices, device, memory, host_memory,
				  (char *) NULL);
		else
			execl(daemon_path, daemon_path, device, memory, host_memory, (char *) NULL);
		_exit(3);
	}
	close(ends[1]);
	if (recv(daemon.control, &daemon.ready, sizeof(daemon.ready), MSG_WAITALL) !=
		sizeof(daemon.ready))
		memset(&daemon.ready, 0, sizeof(daemon.ready));
	return daemon;
}

int
wait_daemon(Daemon *daemon)
{
	for (int ms = 0; ms < PATIENCE_MS; ms += 5)
	{
		int status;

		if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid)
			return status;
		usleep(5000);
	}
	kill(daemon->pid, SIGKILL);
	waitpid(daemon->pid, NULL, 0);
	return -1;
}

int
stop_daemon(Daemon *daemon)
{
	close(daemon->control);
	return wait_daemon(daemon);
}

Connection
open_connection(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = HP_SOCKET};
	Connection connection = {.size = STAGING_SIZE};

	connection.socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	check(connection.socket >= 0 &&
			  connect(connection.socket, (struct sockaddr *) &address, sizeof(address)) == 0,
		  HP_SOCKET);
	connection.memory = memfd_create("staging", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	check(connection.memory >= 0 && ftruncate(connection.memory, STAGING_SIZE) == 0 &&
			  fcntl(connection.memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0,
		  "memfd_create");
	connection.staging =
		mmap(NULL, STAGING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, connection.memory, 0);
	check(connection.staging != MAP_FAILED, "mmap");
	return connection;
}

void
close_connection(Connection *connection)
{
	close(connection->socket);
	close(connection->memory);
	munmap(connection->staging, connection->size);
}

bool
send_bytes(const Connection *connection, const void *bytes, size_t size, const int *descriptors,
		   int count)
{
	char control[CMSG_SPACE(16 * sizeof(int))];
	struct iovec part = {(void *) bytes, size};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	if (count > 0)
	{
		struct cmsghdr *header = (struct cmsghdr *) control;

		memset(control, 0, sizeof(control));
		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE((size_t) count * sizeof(int));
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN((size_t) count * sizeof(int));
		memcpy(CMSG_DATA(header), descriptors, (size_t) count * sizeof(int));
	}
	return sendmsg(connection->socket, &message, MSG_NOSIGNAL) == (ssize_t) size;
}

bool
send_request(const Connection *connection, const HpRequest *request)
{
	return send_bytes(connection, request, sizeof(*request), NULL, 0);
}

static bool
is_readable(const Connection *connection, int ms)
{
	struct pollfd polled = {connection->socket, POLLIN, 0};

	return poll(&polled, 1, ms) > 0;
}

/*
 * Receive a message that is not HP_WAITING.  Returns the result of recv(), or more than
 * a reply's size if nothing comes in time.
 */
static ssize_t
receive(const Connection *connection, HpReply *reply)
{
	while (is_readable(connection, PATIENCE_MS))
	{
		ssize_t received = recv(connection->socket, reply, sizeof(*reply), 0);

		if (received != sizeof(*reply) || reply->status != HP_WAITING)
			return received;
	}
	return sizeof(*reply) + 1;
}

bool
receive_reply(const Connection *connection, HpReply *reply)
{
	memset(reply, 0xA5, sizeof(*reply));
	return receive(connection, reply) == sizeof(*reply);
}

bool
is_told_to_wait(const Connection *connection)
{
	HpReply reply;

	return is_readable(connection, PATIENCE_MS) &&
		   recv(connection->socket, &reply, sizeof(reply), 0) == sizeof(reply) &&
		   reply.status == HP_WAITING;
}

bool
is_silent(const Connection *connection)
{
	HpReply reply;

	return !is_readable(connection, SILENCE_MS) ||
		   (recv(connection->socket, &reply, sizeof(reply), 0) == sizeof(reply) &&
			reply.status == HP_WAITING);
}

bool
has_ended(const Connection *connection)
{
	HpReply reply;

	return receive(connection, &reply) <= 0;
}

bool
ask(const Connection *connection, const HpRequest *request, HpReply *reply)
{
	return send_request(connection, request) && receive_reply(connection, reply);
}

HpRequest
make_hello(uint64_t generation)
{
	return (HpRequest){.operation = HP_HELLO, .version = HP_VERSION, .generation = generation};
}

bool
map_staging(const Connection *connection, int memory, uint64_t size, HpReply *reply)
{
	HpRequest request = {.operation = HP_MAP, .size = size};

	return send_bytes(connection, &request, sizeof(request), &memory, 1) &&
		   receive_reply(connection, reply);
}

Connection
connect_client(uint64_t generation)
{
	Connection connection = open_connection();
	HpRequest hello = make_hello(generation);
	HpReply reply;

	expect(ask(&connection, &hello, &reply) && reply.status == HP_OK, "hello");
	expect(map_staging(&connection, connection.memory, connection.size, &reply) &&
			   reply.status == HP_OK,
		   "map");
	return connection;
}
