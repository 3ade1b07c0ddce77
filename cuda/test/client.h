/*
 * client.h
 *		A daemon under test, and its clients.
 *
 * What fails for want of the system, not the daemon's, ends the program.
 */
#ifndef HARMONIA_TEST_CLIENT_H
#define HARMONIA_TEST_CLIENT_H

#include <sys/types.h>

#include "../../src/device/protocol.h"
#include "../../test/unit/tap.h"

typedef struct Daemon
{
	pid_t		pid;
	int			control;		/* the supervisor's end */
	HpReply		ready;			/* zeros if there was none */
} Daemon;

typedef struct Connection
{
	int			socket;
	char	   *staging;		/* mapped here, and in the daemon after map_staging() */
	size_t		size;
	int			memory;
} Connection;

#define STAGING_SIZE	((size_t) 4 << 20)

/* Work in an empty folder until the program ends. */
extern void enter_folder(const char *argv_daemon);

/* Print what daemons have had to say. */
extern void print_log(void);

/* Start one; device and memory are its options. */
extern Daemon start_daemon(const char *device, const char *memory);

/* Close the control connection; returns the exit status as of waitpid(), -1 if it does not end. */
extern int	stop_daemon(Daemon *daemon);

/* Its exit status, -1 if it does not end. */
extern int	wait_daemon(Daemon *daemon);

/* Connect, with staging memory, but say nothing. */
extern Connection open_connection(void);
extern void close_connection(Connection *connection);

/* Connect, HP_HELLO, HP_MAP. */
extern Connection connect_client(uint64_t generation);

/* Send anything; false if the connection has ended. */
extern bool send_bytes(const Connection *connection, const void *bytes, size_t size,
					   const int *descriptors, int count);
extern bool send_request(const Connection *connection, const HpRequest *request);

/* Wait for a reply; false if the connection ends, or none comes. */
extern bool receive_reply(const Connection *connection, HpReply *reply);

/* Whether there is, for a while, neither reply nor end. */
extern bool is_silent(const Connection *connection);

/* Whether word comes that the reply has to wait for another client's sync. */
extern bool is_told_to_wait(const Connection *connection);

/* Whether the connection has ended, which may take a while; a reply is not an end. */
extern bool has_ended(const Connection *connection);

/* Send and receive. */
extern bool ask(const Connection *connection, const HpRequest *request, HpReply *reply);

extern HpRequest make_hello(uint64_t generation);
extern bool map_staging(const Connection *connection, int memory, uint64_t size, HpReply *reply);

#endif							/* HARMONIA_TEST_CLIENT_H */
