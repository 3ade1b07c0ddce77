/*
 * choice.c
 *		The choice between the CPU and the device, for a batch.
 *
 * Shared memory has what the choice goes by: the times that batches of an index have
 * taken on either side, and what is in the way of this one.  costs.c compares them.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "device/ahead.h"
#include "device/choice.h"
#include "device/client.h"
#include "device/shared.h"
#include "device/stats.h"

/* A batch with fewer keys never goes to the device. */
#define MIN_KEYS HM_SIZE_CLASS_MIN
StaticAssertDecl(MIN_KEYS == HM_REMOTE_MIN_PROBES,
				 "lookups measure the searches that are compared");

/* Expected time to load a copy, in ns per byte; 1.6 GB/s. */
#define LOAD_NS_PER_BYTE 0.6

/* How long to wait before a copy is tried again that had no room on the device. */
#define REFUSED_MS 60000

/*
 * If an earlier copy has shown that the device is slower, as if a new one took this many times as
 * long.
 */
#define SLOWER_DEBT 64

const char *
hm_cpu_reason_text(int reason)
{
	switch ((HmCpuReason) reason)
	{
		case HM_CPU_NO_REASON:
			break;
		case HM_CPU_GPU_OFF:
			return "harmonia.gpu is off";
		case HM_CPU_DISABLED:
			return "harmonia.enable_device is off";
		case HM_CPU_NO_DEVICE:
			return "no device";
		case HM_CPU_DEVICE_DOWN:
			return "device is being started";
		case HM_CPU_DEVICE_HUNG:
			return "device does not answer";
		case HM_CPU_RECOVERY:
			return "recovery is in progress";
		case HM_CPU_TEMPORARY:
			return "temporary index";
		case HM_CPU_OLD_SNAPSHOTS:
			return "old_snapshot_threshold is set";
		case HM_CPU_FEW_KEYS:
			return "few keys";
		case HM_CPU_NOT_RESIDENT:
			return "index is not resident";
		case HM_CPU_LOADING:
			return "index is being copied to the device";
		case HM_CPU_WAITING:
			return "another session keeps the device busy with the index";
		case HM_CPU_CHEAPER:
			return "faster on the CPU";
		case HM_CPU_TOO_LARGE:
			return "index exceeds harmonia.max_resident_blocks";
		case HM_CPU_TOO_MANY_BLOCKS:
			return "index is too large for devices";
		case HM_CPU_DEVICE_MEMORY:
			return "not enough device memory";
		case HM_CPU_BUSY:
			return "device memory is in use";
		case HM_CPU_RESTLESS:
			return "index changes too fast";
		case HM_CPU_MANY_HITS:
			return "too many hits";
		case HM_CPU_TOO_LONG:
			return "device took too long";
		case HM_CPU_DEVICE_FAILED:
			return "device failed";
	}
	return NULL;
}

/* Why the device cannot be used at all for this index. */
static HmCpuReason
why_not_at_all(Relation index)
{
	switch (hm_device_state())
	{
		case HM_DEVICE_NOT_LOADED:
		case HM_DEVICE_OFF:
			return HM_CPU_GPU_OFF;
		case HM_DEVICE_ABSENT:
			return HM_CPU_NO_DEVICE;
		case HM_DEVICE_STARTING:
		case HM_DEVICE_FAILED:
			return HM_CPU_DEVICE_DOWN;
		case HM_DEVICE_HUNG:
			return HM_CPU_DEVICE_HUNG;
		case HM_DEVICE_UP:
			break;
	}
	if (!hm_enable_device)
		return HM_CPU_DISABLED;
	if (RelationUsesLocalBuffers(index))
		return HM_CPU_TEMPORARY;
	if (RecoveryInProgress())
		return HM_CPU_RECOVERY;
	if (hm_old_snapshots_possible())
		return HM_CPU_OLD_SNAPSHOTS;
	return HM_CPU_NO_REASON;
}

/*
 * Is it time to make a copy?  It is once batches have spent as much time on the CPU as making one
 * takes.  So if the copy turns out to be useless, no more time is lost than that.
 */
static HmCpuReason
compare_load(Relation index, uint32 keys, const HmDeviceCosts *costs, HmChoice *choice)
{
	double bytes = (double) RelationGetNumberOfBlocks(index) * BLCKSZ;
	double room = (double) hm_device_room();
	double load_ns = bytes * LOAD_NS_PER_BYTE;

	if (room > 0 && bytes > room)
		return HM_CPU_DEVICE_MEMORY;
	load_ns *= hm_costs_patience(costs, (uint32) hm_now_ms());
	if (hm_costs_device(costs, keys) > hm_costs_cpu(costs, keys))
		load_ns *= SLOWER_DEBT;
	if (costs->debt < load_ns)
		return HM_CPU_NOT_RESIDENT;
	choice->load = true;
	return HM_CPU_NO_REASON;
}

/* Is this backend connected to the device, or is it to be for this batch and later ones? */
static bool
is_set_up(const HmCostChoice *choice)
{
	static double missed = 0;
	double setup = hm_client_setup_owed();

	if (setup > 0)
		return hm_costs_set_up(&missed, choice, setup);
	missed = 0;
	return true;
}

/* Will the device be done sooner?  With "forced" it is only estimated when. */
static HmCpuReason
compare(Relation index, uint32 keys, bool forced, HmChoice *choice)
{
	HmCopyState state;
	HmDeviceCosts *shared = hm_stats_lock_costs(RelationGetRelid(index), &state);
	HmDeviceCosts costs;
	HmQueue queue;

	if (shared == NULL)
		return forced ? HM_CPU_NO_REASON : HM_CPU_NOT_RESIDENT;
	hm_queue_others(&queue);
	queue.lines = state.lines;
	if (forced || !state.watched || state.loading)
		choice->expected = hm_costs_forced(shared, keys, &queue);
	else
		choice->expected = hm_costs_choose(shared, keys, &queue, (uint32) hm_now_ms());
	costs = *shared;
	hm_stats_unlock_costs();

	if (forced)
		return HM_CPU_NO_REASON;

	/* The CPU is done before the copy is. */
	if (state.loading)
		return HM_CPU_LOADING;
	if (costs.refused != 0 && hm_now_ms() - costs.refused < REFUSED_MS)
		return HM_CPU_DEVICE_MEMORY;
	if (!state.watched)
		return compare_load(index, keys, &costs, choice);
	return choice->expected.on_device && is_set_up(&choice->expected) ? HM_CPU_NO_REASON :
																		HM_CPU_CHEAPER;
}

void
hm_choice_note_refusal(Relation index)
{
	HmDeviceCosts *costs = hm_stats_lock_costs(RelationGetRelid(index), NULL);

	if (costs == NULL)
		return;
	costs->refused = hm_now_ms();
	hm_stats_unlock_costs();
}

void
hm_choice_note_restless(Relation index)
{
	HmDeviceCosts *costs = hm_stats_lock_costs(RelationGetRelid(index), NULL);

	if (costs == NULL)
		return;
	hm_costs_note_failure(costs, (uint32) hm_now_ms());
	hm_stats_unlock_costs();
}

void
hm_choice_note_cpu(Relation index, uint32 keys, double ns)
{
	HmDeviceCosts *costs;

	if (keys < MIN_KEYS || hm_device_state() != HM_DEVICE_UP || RelationUsesLocalBuffers(index))
		return;
	costs = hm_stats_lock_costs(RelationGetRelid(index), NULL);
	if (costs == NULL)
		return;
	hm_costs_note_cpu(costs, keys, ns, (uint32) hm_now_ms());
	hm_stats_unlock_costs();
}

void
hm_choice_note_device(Relation index, uint32 keys, const HmDeviceTimes *times)
{
	HmDeviceCosts *costs;

	if (keys < MIN_KEYS)
		return;
	costs = hm_stats_lock_costs(RelationGetRelid(index), NULL);
	if (costs == NULL)
		return;
	hm_costs_note_device(costs, keys, times, (uint32) hm_now_ms());
	hm_stats_unlock_costs();
	if (times->lines >= HM_AHEAD_LINES)
		hm_ahead_start();
}

HmCpuReason
hm_choose(Relation index, const HmProbes *probes, HmChoice *choice)
{
	HmCpuReason reason;

	memset(choice, 0, sizeof(*choice));

	/* Small batches must not cost more than before. */
	if (probes->count == 0 || (probes->count < MIN_KEYS && !hm_force_device))
		return HM_CPU_FEW_KEYS;
	reason = why_not_at_all(index);
	if (reason != HM_CPU_NO_REASON)
		return reason;
	choice->load = hm_force_device;
	return compare(index, probes->count, hm_force_device, choice);
}

bool
hm_choice_may_search(double probes)
{
	return hm_device_state() == HM_DEVICE_UP && hm_enable_device && !RecoveryInProgress() &&
		   (probes >= MIN_KEYS || hm_force_device);
}
