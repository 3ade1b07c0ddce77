/*
 * sync.h
 *		The state of a re-sync, and what sync_pages.c offers to sync.c.
 */
#ifndef HARMONIA_DEVICE_SYNC_H
#define HARMONIA_DEVICE_SYNC_H

#include "device/copies.h"
#include "device/leaves.h"
#include "device/watch.h"

/* Larger indexes are not sent. */
#ifdef HM_SMALL_LIMITS
#define HM_SYNC_MAX_BLOCKS 2000
#else
#define HM_SYNC_MAX_BLOCKS HP_MAX_BLOCKS
#endif

typedef struct HmSync
{
	Relation index;
	HtWidth width;
	const HmLeafMethods *leaves; /* for that width */
	int fanout;
	HpIndexName name;
	HmWatch watch;
	BlockNumber reserved; /* blocks that the copy is known to have room for */

	uint32 limit;         /* lines after which hm_sync_send_marked() may stop; 0: none */
	HmNotedLeaves noted;  /* that may be new */
	HmLookupStats *stats; /* to add to */
	HmCpuReason reason;   /* of a failure */

	/*
	 * Lines or pages are collected in one half of staging memory, while the device
	 * copies from the other half.
	 */
	bool whole_pages;
	char *staging;
	int half;
	bool posted; /* the last request has not been answered */
	uint32 *numbers;
	char *data;
	uint32 count;
} HmSync;

/* A request about the index. */
extern HpRequest hm_sync_request(const HmSync *sync, HpOperation operation);

/*
 * Send a request of the re-sync and wait for its answer.  After an error sets the reason and
 * returns false.
 */
extern bool hm_sync_ask(HmSync *sync, HpRequest *request);

/*
 * Send all marked lines, or some with sync->limit, and note leaves that may be new.  Returns false
 * after an error.
 */
extern bool hm_sync_send_marked(HmSync *sync);

/*
 * Send all pages of the list.  Also returns false if a page is not the leaf of the list; then
 * sync->reason is unchanged and a request may be unanswered.
 */
extern bool hm_sync_send_leaves(HmSync *sync, const HmLeafList *list);

#endif /* HARMONIA_DEVICE_SYNC_H */
