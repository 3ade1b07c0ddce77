/*
 * client.h
 *		A backend's connection to the daemon (client.c).
 *
 * A backend has one connection, made when it is first needed and then kept.  If a request
 * fails or is abandoned because of an error, such as a cancelled query, the connection is
 * closed.  The daemon then ends the request at once, and drops the copy that was being brought
 * up to date.
 *
 * A backend that waits for an answer has the supervisor ask whether the daemon is alive.  If
 * it is not, its state becomes HM_DEVICE_HUNG for all backends, and none waits any longer.
 */
#ifndef HARMONIA_DEVICE_CLIENT_H
#define HARMONIA_DEVICE_CLIENT_H

#include "device/protocol.h"

/*
 * Connect to the daemon, unless connected already.  Returns false on failure, or if the daemon
 * is not up.
 */
extern bool hm_client_connect(void);

extern void hm_client_close(void);

/* The maximum size of staging memory. */
#define HM_STAGING_MAX ((Size) 256 * 1024 * 1024)

/*
 * Get staging memory of at least this size, at most HM_STAGING_MAX.  Returns NULL if
 * there is no memory or no connection to the daemon.  The memory's content may be lost.
 * If it is claimed, its owner's save() is called first.
 */
extern char *hm_client_staging(Size size);

/*
 * What it has taken this backend so far to connect and to get staging memory, which is pinned, in
 * ns; and what it is expected to take before the next batch: 0 if there are both.
 */
extern double hm_client_setup_ns(void);
extern double hm_client_setup_owed(void);

/*
 * Claim the content of staging memory for an owner.  When staging memory is requested
 * next, and the owner has not given it up, save() is called.  Returns a number to give
 * the claim up with; giving up a claim that is no longer valid does nothing.  The end
 * of the transaction ends the claim without save().
 */
extern uint64 hm_client_claim(void *owner, void (*save)(void *owner));
extern void hm_client_give_up(uint64 claim);

/*
 * Send a request and wait for the answer.  Returns NULL, and closes the connection, if
 * the daemon has gone, does not answer or has failed.  The reply is valid until the
 * next request.  During a sync, from HP_SYNC_BEGIN until HP_SYNC_END or HP_DROP, every
 * request must be followed by another one or by hm_client_close(); otherwise the next
 * hm_client_connect() closes the connection.
 *
 * Errors: query_canceled and similar ones.
 */
extern const HpReply *hm_client_ask(HpRequest *request);

/*
 * The same in two steps, with other work between them: send a request, then wait for
 * its answer before the next request. hm_client_post() returns false, and closes the
 * connection, if the request cannot be sent.
 */
extern bool hm_client_post(HpRequest *request);
extern const HpReply *hm_client_answer(void);

/*
 * A request that waits for another client's sync is given up after HP_WAITING_MS, as if the daemon
 * had gone: the CPU is sooner.  Was that the reason for the last NULL?  Requests to drop a copy
 * wait for as long as it takes, and so do all until the end of a transaction that is patient,
 * and with harmonia.force_device.
 */
extern bool hm_client_gave_up(void);
extern void hm_client_be_patient(void);

#endif /* HARMONIA_DEVICE_CLIENT_H */
