/*
 * client.h
 *		A daemon under test, and its clients.
 *
 * If a system call fails for a reason that is not the daemon's fault, the program
 * exits.
 */
#ifndef HARMONIA_TEST_CLIENT_H
#define HARMONIA_TEST_CLIENT_H

#include <sys/types.h>

#include "../../src/device/protocol.h"
#include "../../test/unit/tap.h"

typedef struct Daemon
{
	pid_t pid;
	int control;   /* the supervisor's end, held by the test */
	HpReply ready; /* zeros if no reply came */
} Daemon;

typedef struct Connection
{
	int socket;
	char *staging; /* mapped here and, after map_staging(), in the daemon */
	size_t size;
	int memory;
} Connection;

#define STAGING_SIZE ((size_t) 4 << 20)

/* The time since anything, in ms. */
extern double now_ms(void);

/* Create an empty folder and work in it until the program ends. */
extern void enter_folder(const char *argv_daemon);

/* Print what daemons have logged. */
extern void print_log(void);

/* The option for the daemon's devices, or NULL for its default. */
extern const char *daemon_devices;

/* Start a daemon with up to three options, the last of which may be NULL. */
extern Daemon start_daemon(const char *device, const char *memory, const char *host_memory);

/*
 * Close the supervisor's connection.  Returns the exit status as waitpid() does, or -1
 * if the daemon does not end.
 */
extern int stop_daemon(Daemon *daemon);

/* Wait for the daemon's end.  Returns its exit status, or -1 if it does not end. */
extern int wait_daemon(Daemon *daemon);

/* Connect, and make staging memory, but send nothing. */
extern Connection open_connection(void);
extern void close_connection(Connection *connection);

/* Connect, then send HP_HELLO and HP_MAP. */
extern Connection connect_client(uint64_t generation);

/* Send any bytes.  Returns false if the connection has ended. */
extern bool send_bytes(const Connection *connection, const void *bytes, size_t size,
					   const int *descriptors, int count);
extern bool send_request(const Connection *connection, const HpRequest *request);

/*
 * Wait for a reply.  Returns false if the connection ends, or no reply comes in time.
 */
extern bool receive_reply(const Connection *connection, HpReply *reply);

/* Does neither a final reply nor the end of the connection come for a while? */
extern bool is_silent(const Connection *connection);

/* Does HP_WAITING come? */
extern bool is_told_to_wait(const Connection *connection);

/* Does the connection end in time?  A reply is not an end. */
extern bool has_ended(const Connection *connection);

/* Send a request and wait for its reply.  Returns false if there is none. */
extern bool ask(const Connection *connection, const HpRequest *request, HpReply *reply);

extern HpRequest make_hello(uint64_t generation);
extern bool map_staging(const Connection *connection, int memory, uint64_t size, HpReply *reply);

#endif /* HARMONIA_TEST_CLIENT_H */
