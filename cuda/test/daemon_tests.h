/*
 * daemon_tests.h
 *		The parts of test_gpud, and what they share.
 */
#ifndef HARMONIA_TEST_DAEMON_TESTS_H
#define HARMONIA_TEST_DAEMON_TESTS_H

#include "index.h"

#define GENERATION UINT64_C(0x123456789ABCDEF0)
#define MEMORY "--memory=64"

extern const char *device; /* the daemon's option */
extern const HtWidth some_widths[3];

/* The daemon that start() has started. */
extern Daemon daemon_process;

extern void start(const char *memory);

/* Start a daemon whose copies may also take the host's memory, unless host_memory is NULL. */
extern void start_with_host(const char *memory, const char *host_memory);

/* Have the daemon end, which it must do without an error. */
extern void stop(void);

/* The status of a search for one key; HP_OK also if there is not enough room. */
extern int probe_status(const Connection *connection, const Index *index);

/* Send a search for all entries of an index; check its result; receive and check it. */
extern void send_search_all(const Connection *client, const Index *index);
extern void check_all(const Connection *client, const Index *index, const HpReply *reply);
extern void receive_all(const Connection *client, const Index *index);

/* test_gpud.c: a copy is made, changed, searched and dropped again. */
extern void test_life(HtWidth width, Content content);

/* gpud_long.c */
extern void test_gone_client(void);
extern void test_gone_sorting(void);
extern void test_pieces(void);
extern void test_small_pieces(void);
extern void test_stalled_sync(void);
extern void test_shares(void);

/* gpud_memory.c */
extern void test_pinned(void);
extern void test_memory(void);
extern void test_coming_and_going(void);
extern void test_host_memory(void);
extern void test_no_memory(void);
extern void test_too_long(void);
extern void test_failure(void);

/* gpud_hostile.c */
extern void test_hostile(void);

#endif /* HARMONIA_TEST_DAEMON_TESTS_H */
