/*
 * costs.c
 *		Means of what batches cost, and the choice between the CPU and the device.
 *
 * The device's means are of what a batch takes alone.  Waiting is not part of them: it is
 * expected for each batch, from what is in front of the device at that moment.  Only waiting
 * that was not expected counts, so that what no number here shows still has its effect.
 */
#include "device/costs.h"

/*
 * The weight of a measurement in a mean.  It counts as at most CLIP times the mean: something may
 * have held it up.
 */
#define WEIGHT 0.2
#define CLIP 2

/*
 * HM_COSTS_LEARNT batches on the device make a mean; until then it is what the fastest of them
 * took.  The first ones of an index may take what only first ones take: memory is got, nothing is
 * in a cache, others wait for them.  So the device gets so many, unless one takes longer than this,
 * and what it has lost meanwhile does not count.
 */
#define LEARN_NS 200e6

/* The slower side is tried if that costs at most this share of the time that batches take. */
#define EXPLORE_SHARE (1.0 / 64)

/*
 * Gains and losses of batches on the device count up to this many times what a batch takes on the
 * CPU. So a device that has been fast for a while may be late once.  One that was late often is out
 * of use until the loss is EXPLORE_SHARE of the time that batches have taken since then, but not
 * for longer than LOSS_MS if to try costs little, a re-sync of no more than DEAR_SYNC times what a
 * batch takes on the CPU: what many sessions have lost says little of what the few after them would
 * gain.
 */
#define MAX_GAIN 64
#define MAX_LOSS 1024
#define LOSS_MS 1000
#define DEAR_SYNC 4

/*
 * No request waits longer for another one than the larger of the two takes, or than a piece of a
 * search: the daemon shares its time by pieces (cuda/searches.cc).
 */
#define PIECE_NS 20e6

/* What is known of the device counts half when it is as old as this, and as so many batches. */
#define FORGET_MS 10000
#define FORGET_BATCHES 100

/*
 * A copy that cannot be made is tried again after twice as much work on the CPU, up to this many
 * times what making one takes.
 */
#define MAX_PATIENCE 64

/* A re-sync of fewer lines tells what one takes without any. */
#define FEW_LINES 32

static inline HmClassCosts *
class_of(HmDeviceCosts *costs, uint32_t keys)
{
	return &costs->classes[hm_size_class(keys)];
}

static void
add_to_mean(HmMean *mean, double value, uint32_t now_ms)
{
	double clipped = value < CLIP * mean->value ? value : CLIP * mean->value;

	if (mean->value == 0)
		mean->value = (float) value;
	else
		mean->value += (float) (WEIGHT * (clipped - mean->value));
	mean->at_ms = now_ms;
}

/* The same for batches on the device, of which the first ones count as the fastest of them. */
static void
add_to_learnt(HmMean *mean, double value, uint32_t now_ms)
{
	if (mean->count == HM_COSTS_LEARNT)
	{
		add_to_mean(mean, value, now_ms);
		return;
	}
	if (mean->count == 0 || value < mean->value)
		mean->value = (float) value;
	mean->at_ms = now_ms;
	mean->count++;
}

/* What a key takes in batches of a class on either side; 0: unknown. */
static double
key_time(const HmDeviceCosts *costs, int class, bool device)
{
	if (class < 0 || class >= HM_SIZE_CLASSES)
		return 0;
	return device ? costs->classes[class].device.value : costs->classes[class].cpu.value;
}

/*
 * The expected time of a batch, from the nearest classes with measurements.  On the CPU
 * each key takes the same time.  On the device a batch that is smaller than a
 * measured one takes about as long as that one.
 */
static double
expected(const HmDeviceCosts *costs, uint32_t keys, bool device)
{
	int class = hm_size_class(keys);

	for (int distance = 0; distance < HM_SIZE_CLASSES; distance++)
	{
		double below = key_time(costs, class - distance, device);
		double above = key_time(costs, class + distance, device);

		if (below > 0)
			return below * keys;
		if (above > 0)
			return above *
				   (device ? (double) HM_SIZE_CLASS_MIN * (1 << 2 * (class + distance)) : keys);
	}
	return 0;
}

double
hm_costs_cpu(const HmDeviceCosts *costs, uint32_t keys)
{
	return expected(costs, keys, false);
}

double
hm_costs_device(const HmDeviceCosts *costs, uint32_t keys)
{
	return expected(costs, keys, true);
}

/* How long a re-sync takes that sends these lines. */
static double
sync_time(const HmDeviceCosts *costs, uint64_t lines)
{
	return lines == 0 ? 0 : costs->sync.value + (double) costs->line.value * (double) lines;
}

/* How long a batch waits that keeps the device busy for so long itself. */
static double
wait_time(const HmQueue *queue, double busy)
{
	double wait = queue->search;
	double longest = (busy > PIECE_NS ? busy : PIECE_NS) * queue->searches;

	if (wait > longest)
		wait = longest;

	/* Requests that are being served, one by each lane, are half done, on average. */
	if (queue->searches < queue->lanes)
		wait = 0;
	else
		wait *= (1 - 0.5 * queue->lanes / queue->searches) / queue->lanes;
	return queue->sync + wait;
}

HmCostChoice
hm_costs_forced(const HmDeviceCosts *costs, uint32_t keys, const HmQueue *queue)
{
	HmCostChoice choice;

	choice.on_device = true;
	choice.saved = 0;
	choice.reason = costs->classes[hm_size_class(keys)].device.count < HM_COSTS_LEARNT ?
						HM_COST_LEARNING :
						HM_COST_SOONER;
	choice.busy = hm_costs_device(costs, keys) * costs->busy.value;
	choice.wait = wait_time(queue, choice.busy);
	choice.sync = sync_time(costs, queue->lines);
	return choice;
}

/* May a batch try the slower side?  Each batch earns a share of its own time for that. */
static bool
explores(float *earned, double faster, double slower)
{
	*earned += (float) (faster * EXPLORE_SHARE);
	if (*earned < slower - faster)
		return false;
	*earned = 0;
	return true;
}

/*
 * The expected time of a batch on the device, or less if that was measured long ago.  A device that
 * was slow once could otherwise stay out of use for ever: the longer nobody uses it, the more lines
 * a copy lacks, and the more it would cost to try.
 */
static double
hoped(const HmDeviceCosts *costs, uint32_t keys, uint32_t now_ms)
{
	double device = hm_costs_device(costs, keys);
	double age = now_ms - costs->classes[hm_size_class(keys)].device.at_ms;

	return device / (1 + age / (FORGET_MS + FORGET_BATCHES * device / 1e6));
}

double
hm_costs_patience(const HmDeviceCosts *costs, uint32_t now_ms)
{
	double age = (uint32_t) (now_ms - costs->patience_at_ms);
	double result = costs->patience / (1 + age / FORGET_MS);

	return result > 1 ? result : 1;
}

void
hm_costs_note_failure(HmDeviceCosts *costs, uint32_t now_ms)
{
	double patience = hm_costs_patience(costs, now_ms) * 2;

	costs->patience = (float) (patience < MAX_PATIENCE ? patience : MAX_PATIENCE);
	costs->patience_at_ms = now_ms;
}

HmCostChoice
hm_costs_choose(HmDeviceCosts *costs, uint32_t keys, const HmQueue *queue, uint32_t now_ms)
{
	HmCostChoice choice = hm_costs_forced(costs, keys, queue);
	double cpu = hm_costs_cpu(costs, keys);
	double device = hoped(costs, keys, now_ms);
	double sync = choice.sync;
	HmClassCosts *class = class_of(costs, keys);

	if (device == 0)
		return choice;
	if (cpu == 0)
	{
		choice.on_device = false;
		return choice;
	}

	device += choice.wait;
	choice.saved = cpu - device;
	if (choice.reason == HM_COST_LEARNING && class->device.count > 0 && device + sync < LEARN_NS)
		return choice;

	/*
	 * Means are no guard against a device that is fast as a rule and very late now and then.  What
	 * it has lost has to be earned first, as for trials.
	 */
	if (class->gained < 0 &&
		(sync > DEAR_SYNC * cpu || (uint32_t) (now_ms - costs->lost_at_ms) < LOSS_MS))
	{
		class->gained += (float) (cpu * EXPLORE_SHARE);
		choice.on_device = false;
		return choice;
	}
	if (class->gained < 0)
		class->gained = 0;

	/*
	 * A re-sync also serves the batches after this one.  So it is made when the batches since
	 * the last one would have saved as much as it takes: if that does not pay in the end, at
	 * most as much is lost again.
	 */
	if (device + sync < cpu)
	{
		choice.on_device = !explores(&class->explore, device + sync, cpu);
		return choice;
	}
	choice.reason = HM_COST_INVESTMENT;
	if (device + sync - costs->missed < cpu)
		return choice;
	if (device < cpu)
		costs->missed += (float) (cpu - device);
	choice.reason = HM_COST_TRIAL;
	choice.on_device = device + sync > cpu && explores(&class->explore, cpu, device + sync);
	return choice;
}

bool
hm_costs_set_up(double *missed, const HmCostChoice *choice, double setup)
{
	if (choice->reason == HM_COST_LEARNING)
		return true;
	if (choice->reason == HM_COST_TRIAL)
		return false;
	if (choice->saved > 0)
		*missed += choice->saved;
	return *missed >= setup;
}

void
hm_costs_note_cpu(HmDeviceCosts *costs, uint32_t keys, double ns, uint32_t now_ms)
{
	add_to_mean(&class_of(costs, keys)->cpu, ns / keys, now_ms);
	costs->debt += (float) ns;
}

/*
 * Note how much sooner a batch was done than it would have been on the CPU, without its own re-
 * sync.
 */
static void
note_gain(HmDeviceCosts *costs, uint32_t keys, double ns, uint32_t now_ms)
{
	double cpu = hm_costs_cpu(costs, keys);
	HmClassCosts *class = class_of(costs, keys);
	double sum = class->gained + cpu - ns;

	if (sum > MAX_GAIN * cpu)
		sum = MAX_GAIN * cpu;
	else if (sum < -MAX_LOSS * cpu)
		sum = -MAX_LOSS * cpu;
	class->gained = (float) sum;
	if (sum < 0)
		costs->lost_at_ms = now_ms;
}

static void
note_sync(HmDeviceCosts *costs, double ns, uint64_t lines, uint32_t now_ms)
{
	costs->missed = 0;
	if (lines < FEW_LINES)
		add_to_mean(&costs->sync, ns, now_ms);
	else if (ns > costs->sync.value)
		add_to_mean(&costs->line, (ns - costs->sync.value) / (double) lines, now_ms);
}

void
hm_costs_note_device(HmDeviceCosts *costs, uint32_t keys, const HmDeviceTimes *times,
					 uint32_t now_ms)
{
	double waited = times->asked - times->busy;
	double sync_waited = times->loaded ? 0 : times->sync_waited;
	double unexpected = waited + sync_waited - times->expected_wait;
	double alone = times->all - times->sync - waited;

	/* The first batches of several sessions may all have waited for the very first one. */
	if (unexpected > 0 && times->reason != HM_COST_LEARNING)
		alone += unexpected;

	/* What a re-sync was to pay for, it is measured by. */
	if (times->loaded || times->reason == HM_COST_INVESTMENT || times->reason == HM_COST_TRIAL)
		note_gain(costs, keys, times->all - (times->sync - sync_waited), now_ms);
	else if (times->reason == HM_COST_SOONER)
		note_gain(costs, keys, times->all, now_ms);
	add_to_learnt(&class_of(costs, keys)->device, alone / keys, now_ms);
	if (alone > 0)
		add_to_learnt(&costs->busy, times->busy / alone, now_ms);
	if (times->loaded)
		costs->debt = costs->missed = 0;
	else if (times->sync > 0)
		note_sync(costs, times->sync - times->sync_waited, times->lines, now_ms);
	costs->refused = 0;
}
