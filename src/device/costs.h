/*
 * costs.h
 *		What batches cost on the CPU and on the device, and which of the two is sooner.
 *
 * Plain C without PostgreSQL's headers, so that a simulation of clients tests it
 * (test/unit/test_costs.c).  All times are in ns unless the name says otherwise.
 *
 * A batch goes where it is expected to be done sooner, as things stand.  On the device it waits
 * for what other sessions have asked for, and for the lines that the copy lacks.  So while many
 * sessions search, some of them use the CPU, and a short queue is always left in front of the
 * device.
 */
#ifndef HARMONIA_COSTS_H
#define HARMONIA_COSTS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Batches are divided into classes by size; each class covers four times the size of
 * the one before.
 */
#define HM_SIZE_CLASSES 10
#define HM_SIZE_CLASS_MIN 256

static inline int
hm_size_class(uint32_t keys)
{
	int class = 0;

	while (class < HM_SIZE_CLASSES - 1 && keys >= (uint32_t) HM_SIZE_CLASS_MIN * 4 << 2 * class)
		class ++;
	return class;
}

/* How many batches on the device make a mean. */
#define HM_COSTS_LEARNT 3

/* A mean of measurements. */
typedef struct HmMean
{
	float value;    /* 0: nothing has been measured */
	uint32_t at_ms; /* when it was measured last */
	uint32_t count; /* of batches on the device, up to HM_COSTS_LEARNT */
} HmMean;

/* Costs of an index's batches of one class. */
typedef struct HmClassCosts
{
	HmMean cpu;    /* of a key */
	HmMean device; /* the same, if nothing is in the way */
	float explore; /* that may be spent on trying the slower one */
	float gained;  /* that batches have gained on the device, beside the CPU's mean; below 0: lost. 
					* Bounded */
} HmClassCosts;

/* Costs of an index's batches.  All zero: nothing is known. */
typedef struct HmDeviceCosts
{
	HmClassCosts classes[HM_SIZE_CLASSES];
	HmMean busy;             /* the share of a batch's time on the device in which other requests
							  * have to wait */
	HmMean sync;             /* to bring the copy up to date, whatever it lacks */
	HmMean line;             /* and for each line that it lacks */
	float missed;            /* that batches would have saved since the last re-sync, had the copy
							  * been up to date */
	uint32_t lost_at_ms;     /* when what a class has gained was below 0 last after a batch on the
							  * device */
	float patience;          /* copies are made when they would have saved so many times what making
							  * one takes; below 1: once */
	uint32_t patience_at_ms; /* when it was set */
	float debt;              /* that batches spent on the CPU for lack of a copy, since the index
							  * was last loaded or unloaded */
	uint64_t refused;        /* when the device last had no room for the copy, by hm_now_ms(), or
							  * 0 */
} HmDeviceCosts;

/* What is in the way of a batch on the device. */
typedef struct HmQueue
{
	double search;     /* that other sessions' searches still take */
	uint32_t searches; /* their number */
	double sync;       /* that their re-syncs still take */
	uint64_t lines;    /* that the copy lacks */
	uint32_t lanes;    /* that share the searches; each re-sync keeps all of them busy */
} HmQueue;

/* Why a batch goes to the device. */
typedef enum HmCostReason
{
	HM_COST_LEARNING,   /* too few batches like it have gone there; it may be sooner as well */
	HM_COST_SOONER,     /* it is expected to be done sooner, with its re-sync; or it has to */
	HM_COST_INVESTMENT, /* its re-sync is made for those after it, too */
	HM_COST_TRIAL       /* to know how long it takes */
} HmCostReason;

/* Where a batch goes, and what is expected if that is the device. */
typedef struct HmCostChoice
{
	bool on_device;
	HmCostReason reason;
	double saved; /* how much sooner than on the CPU, without the re-sync */
	double wait;  /* for other sessions */
	double sync;  /* of the re-sync before it */
	double busy;  /* of the device with this batch, after that */
} HmCostChoice;

/* How long a batch has taken on the device. */
typedef struct HmDeviceTimes
{
	double all;           /* from the start to the last hit, without what was done with the hits */
	double asked;         /* of "all", from sending requests to their answers */
	double busy;          /* of that, the device's work for this batch */
	double sync;          /* of "all", bringing the copy up to date */
	double sync_waited;   /* of that, waiting for other sessions */
	uint64_t lines;       /* that it took */
	double expected_wait; /* HmCostChoice.wait */
	HmCostReason reason;  /* HmCostChoice.reason */
	bool loaded;          /* a whole copy was made, which "sync" is about */
} HmDeviceTimes;

/* The expected time of a batch on either side, without what is in the way; 0: unknown. */
extern double hm_costs_cpu(const HmDeviceCosts *costs, uint32_t keys);
extern double hm_costs_device(const HmDeviceCosts *costs, uint32_t keys);

/*
 * Where does a batch of an index go that has a copy?  Notes in the costs what follows from that.
 * now_ms is the time, in ms since anything.
 */
extern HmCostChoice hm_costs_choose(HmDeviceCosts *costs, uint32_t keys, const HmQueue *queue,
									uint32_t now_ms);

/* What is expected of a batch that goes to the device in any case. */
extern HmCostChoice hm_costs_forced(const HmDeviceCosts *costs, uint32_t keys,
									const HmQueue *queue);

/*
 * Does a session set up its connection to the device for a batch that goes there?  That serves its
 * later batches, too.  So it does when its batches have missed as much as that takes, which *missed
 * notes; one that is to be a trial for all does not.
 */
extern bool hm_costs_set_up(double *missed, const HmCostChoice *choice, double setup);

/*
 * How many times what making a copy takes batches must have missed before it is made.  That doubles
 * with each attempt that fails, as the index changes too fast.  Like means, it gets less as it gets
 * older.
 */
extern double hm_costs_patience(const HmDeviceCosts *costs, uint32_t now_ms);
extern void hm_costs_note_failure(HmDeviceCosts *costs, uint32_t now_ms);

/* Note what a batch has taken. */
extern void hm_costs_note_cpu(HmDeviceCosts *costs, uint32_t keys, double ns, uint32_t now_ms);
extern void hm_costs_note_device(HmDeviceCosts *costs, uint32_t keys, const HmDeviceTimes *times,
								 uint32_t now_ms);

#endif /* HARMONIA_COSTS_H */
