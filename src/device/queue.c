/*
 * queue.c
 *		What backends have in front of the device, for the choice between it and the CPU.
 *
 * Each backend adds its expected work to sums in shared memory when its batch goes to the device,
 * and takes it away when the answer is there.  Sums can be out of date by a moment; they are read
 * to estimate, not to count.
 */
#include "postgres.h"

#include "access/xact.h"

#include "device/choice.h"
#include "device/shared.h"

/* What this backend has added. */
static uint64 own_sync = 0;
static uint64 own_search = 0;
static bool is_queued = false;

/* Change a sum by the difference between two of this backend's shares. */
static inline void
change_sum(pg_atomic_uint64 *sum, uint64 *share, double ns)
{
	uint64 wanted = ns > 0 ? (uint64) ns : 0;

	if (wanted != *share)
		pg_atomic_fetch_add_u64(sum, (int64) (wanted - *share));
	*share = wanted;
}

void
hm_queue_enter(double sync_ns, double search_ns)
{
	bool stays = sync_ns > 0 || search_ns > 0;

	change_sum(&hm_device->queued_sync, &own_sync, sync_ns);
	change_sum(&hm_device->queued_search, &own_search, search_ns);
	if (stays && !is_queued)
		pg_atomic_fetch_add_u32(&hm_device->queued, 1);
	else if (!stays && is_queued)
		pg_atomic_fetch_sub_u32(&hm_device->queued, 1);
	is_queued = stays;
}

void
hm_queue_others(HmQueue *queue)
{
	queue->sync = (double) (pg_atomic_read_u64(&hm_device->queued_sync) - own_sync);
	queue->search = (double) (pg_atomic_read_u64(&hm_device->queued_search) - own_search);
	queue->searches = pg_atomic_read_u32(&hm_device->queued) - is_queued;
	queue->lanes = pg_atomic_read_u32(&hm_device->lanes);
}

static void
leave_at_end(XactEvent event, void *arg)
{
	hm_queue_enter(0, 0);
}

/* After an error, a batch may not have come to the end of its search. */
static void
leave_at_abort(SubXactEvent event, SubTransactionId subxact, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		hm_queue_enter(0, 0);
}

void
hm_queue_init(void)
{
	RegisterXactCallback(leave_at_end, NULL);
	RegisterSubXactCallback(leave_at_abort, NULL);
}
