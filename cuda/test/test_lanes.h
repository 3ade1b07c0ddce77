/*
 * test_lanes.h
 *		A daemon whose devices have lanes, and fail, and its clients.
 */
#ifndef HARMONIA_TEST_PLANES_H
#define HARMONIA_TEST_PLANES_H

#include "index.h"

#define GENERATION UINT64_C(0x123456789ABCDEF0)

/*
 * Start a daemon, and forget the faults that were set for it; stop it, and expect that it ends as
 * it should.
 */
extern void start(const char *memory);
extern void stop(void);

extern void connect_clients(Connection *clients, int n);
extern void close_connections(Connection *clients, int n);

/* lanes_parties.c */
extern void test_parties(void);
extern void test_failing_parties(void);
extern void test_slow_members(void);

#endif /* HARMONIA_TEST_PLANES_H */
