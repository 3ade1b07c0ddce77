/*
 * choice.c
 *		The choice between the CPU and the device, for a batch.
 *
 * Shared memory has what the choice goes by: the times that batches of an index have
 * taken on either side.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "lookup/remote.h"

/* A batch with fewer keys never goes to the device. */
#define MIN_KEYS			HM_SIZE_CLASS_MIN

/* Expected time to load a copy, in ns per byte; 1.6 GB/s. */
#define LOAD_NS_PER_BYTE	0.6

/* How long to wait before a copy is tried again that had no room on the device. */
#define REFUSED_MS			60000

/*
 * One in this many batches is searched by the side that seems to be slower, to see
 * whether it still is; but not if it is slower by more than EXPLORE_RATIO.
 */
#define EXPLORE_ONE_IN		64
#define EXPLORE_RATIO		4

/* The weight of a batch in the means. */
#define MEAN_WEIGHT			0.2f

const char *
hm_cpu_reason_text(HmCpuReason reason)
{
	switch (reason)
	{
		case HM_CPU_NO_REASON:
			break;
		case HM_CPU_NOT_PRELOADED:
			return "harmonia is not preloaded";
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
		case HM_CPU_RANGE_KEYS:
			return "keys of ranges are wanted";
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

/* Add a measurement to a mean; the first one becomes the mean. */
static void
add_to_mean(float *mean, double value)
{
	*mean = *mean == 0 ? (float) value : *mean + MEAN_WEIGHT * ((float) value - *mean);
}

/*
 * The expected time of a batch, from the nearest classes with measurements.  On the CPU
 * each key takes the same time.  On the device ("fixed") a batch that is smaller than a
 * measured one takes about as long as that one.
 */
static double
expected_ns(const float *means, uint32 keys, bool fixed)
{
	int			class = hm_size_class(keys);

	for (int distance = 0; distance < HM_SIZE_CLASSES; distance++)
	{
		int			below = class - distance;
		int			above = class + distance;

		if (below >= 0 && means[below] > 0)
			return means[below] * keys;
		if (above < HM_SIZE_CLASSES && means[above] > 0)
			return means[above] *
				(fixed ? (double) HM_SIZE_CLASS_MIN * (1 << 2 * above) : keys);
	}
	return 0;
}

/* Why the device cannot be used at all for this index. */
static HmCpuReason
why_not_at_all(Relation index)
{
	switch (hm_device_state())
	{
		case HM_DEVICE_NOT_LOADED:
			return HM_CPU_NOT_PRELOADED;
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
 * Is the device expected to be faster?  Sets *load to make a copy once batches have
 * spent as much time on the CPU as making one takes.  So if the copy turns out to be
 * useless, no more time is lost than that.
 */
static HmCpuReason
compare(Relation index, uint32 keys, bool *load)
{
	HmDeviceCosts costs;
	double		cpu,
				device;
	bool		explore;

	/* The CPU is done before the copy is. */
	if (hm_device_is_loading(index))
		return HM_CPU_LOADING;
	if (!hm_stats_costs(RelationGetRelid(index), &costs))
		return HM_CPU_NOT_RESIDENT;
	if (costs.refused != 0 &&
		!TimestampDifferenceExceeds(costs.refused, GetCurrentTimestamp(), REFUSED_MS))
		return HM_CPU_DEVICE_MEMORY;

	cpu = expected_ns(costs.cpu, keys, false);
	device = expected_ns(costs.device, keys, true);
	explore = (costs.batches + 1) % EXPLORE_ONE_IN == 0;

	if (!hm_device_is_watched(index))
	{
		double		load_ns = (double) RelationGetNumberOfBlocks(index) * BLCKSZ *
			LOAD_NS_PER_BYTE;

		/* An earlier copy may have shown that the device is slower. */
		if (costs.debt < load_ns || (device > 0 && device > cpu && !explore))
			return HM_CPU_NOT_RESIDENT;
		*load = true;
		return HM_CPU_NO_REASON;
	}
	if (device == 0)
		return HM_CPU_NO_REASON;
	if (cpu == 0)
		return HM_CPU_CHEAPER;
	device += costs.sync;
	if (explore && device < cpu * EXPLORE_RATIO && cpu < device * EXPLORE_RATIO)
		return device < cpu ? HM_CPU_CHEAPER : HM_CPU_NO_REASON;
	return device < cpu ? HM_CPU_NO_REASON : HM_CPU_CHEAPER;
}

void
hm_choice_note_refusal(Relation index)
{
	HmDeviceCosts costs = {0};

	hm_stats_costs(RelationGetRelid(index), &costs);
	costs.refused = GetCurrentTimestamp();
	hm_stats_set_costs(RelationGetRelid(index), &costs);
}

void
hm_choice_note_cpu(Relation index, uint32 keys, double ns)
{
	HmDeviceCosts costs = {0};

	if (keys < MIN_KEYS || hm_device_state() != HM_DEVICE_UP ||
		RelationUsesLocalBuffers(index))
		return;
	hm_stats_costs(RelationGetRelid(index), &costs);
	add_to_mean(&costs.cpu[hm_size_class(keys)], ns / keys);
	costs.debt += (float) ns;
	costs.batches++;
	hm_stats_set_costs(RelationGetRelid(index), &costs);
}

void
hm_choice_note_device(Relation index, uint32 keys, double device_ns, double sync_ns,
					  bool loaded)
{
	HmDeviceCosts costs = {0};

	if (keys < MIN_KEYS)
		return;
	hm_stats_costs(RelationGetRelid(index), &costs);
	add_to_mean(&costs.device[hm_size_class(keys)], device_ns / keys);
	if (!loaded)
		add_to_mean(&costs.sync, sync_ns);
	else
		costs.debt = 0;
	costs.batches++;
	costs.refused = 0;
	hm_stats_set_costs(RelationGetRelid(index), &costs);
}

void
hm_choice_note_sample(Relation index, uint32 keys, double ns)
{
	HmDeviceCosts costs = {0};

	hm_stats_costs(RelationGetRelid(index), &costs);
	add_to_mean(&costs.device[hm_size_class(keys)], ns / keys);
	hm_stats_set_costs(RelationGetRelid(index), &costs);
}

HmCpuReason
hm_choose(Relation index, const HmProbes *probes, bool keys_wanted, bool *load)
{
	HmCpuReason reason;

	*load = false;

	/* Small batches must not cost more than before. */
	if (probes->count == 0 || (probes->count < MIN_KEYS && !hm_force_device))
		return HM_CPU_FEW_KEYS;
	reason = why_not_at_all(index);
	if (reason != HM_CPU_NO_REASON)
		return reason;
	if (keys_wanted && probes->high != NULL)
		return HM_CPU_RANGE_KEYS;
	if (hm_force_device)
	{
		*load = true;
		return HM_CPU_NO_REASON;
	}
	return compare(index, probes->count, load);
}
