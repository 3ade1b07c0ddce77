/*
 * zones.c
 *		Zones of an index that does not fit the device's memory, and which of them are
 *		resident.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "lookup/zones.h"

/* The number of indexes whose zones a backend keeps. */
#define KEPT			4

/*
 * A zone takes the place of another one if its heat is more than this many times the other's, and
 * this much besides.  Heat is about the number of probes since the counts were halved last, so zones that
 * are equally hot differ by the root of that.
 */
#define MUCH_HOTTER		2
#define NOISE			32

/* An exchange must be expected to bring this share of all probes to the device. */
#define WORTH_SHARE		(1.0 / 32)

static HmZones *kept[KEPT];
static int	kept_next = 0;

/* ----------------------------------------------------------------
 *		Zones of this backend
 * ----------------------------------------------------------------
 */

HmZones *
hm_zones_find(uint64 number)
{
	for (int i = 0; i < KEPT; i++)
	{
		if (kept[i] != NULL && kept[i]->number == number)
			return kept[i];
	}
	return NULL;
}

/* Room for new zones; they have no number yet. */
static HmZones *
new_zones(void)
{
	HmZones    *zones = kept[kept_next];

	if (zones == NULL)
		zones = kept[kept_next] = MemoryContextAlloc(TopMemoryContext, sizeof(HmZones));
	kept_next = (kept_next + 1) % KEPT;
	zones->number = 0;
	zones->count = 0;
	return zones;
}

/* Bounds are set: make what hm_zone_of() needs. */
static void
make_buckets(HmZones *zones)
{
	HmKey		range = zones->count == 1 ? 0 : zones->low[zones->count - 1] - zones->low[1];
	uint32		zone = zones->count == 1 ? 0 : 1;

	zones->shift = 0;
	while (range >> zones->shift >= HM_ZONE_BUCKETS)
		zones->shift++;
	for (uint32 bucket = 0; bucket < HM_ZONE_BUCKETS; bucket++)
	{
		HmKey		begin = (HmKey) bucket << zones->shift;

		/* What lies behind the last bound is in the last zone. */
		while (zone + 1 < zones->count && zones->low[zone + 1] - zones->low[1] <= begin)
			zone++;
		zones->first[bucket] = (uint16) zone;
	}
	zones->first[HM_ZONE_BUCKETS] = (uint16) (zones->count - 1);
}

/* It is settled what is resident: note that of buckets. */
static void
note_residents(HmZones *zones)
{
	for (uint32 bucket = 0; bucket < HM_ZONE_BUCKETS; bucket++)
	{
		uint32		first = zones->first[bucket];
		bool		same = true;

		for (uint32 zone = first + 1; zone <= zones->first[bucket + 1]; zone++)
			same &= zones->resident[zone] == zones->resident[first];
		zones->bucket_is[bucket] = !same ? HM_BUCKET_MIXED :
			zones->resident[first] ? HM_BUCKET_RESIDENT : HM_BUCKET_ABSENT;
	}
}

HmZones *
hm_zones_take(uint64 number, const HpZone *from, uint32 count)
{
	HmZones    *zones = new_zones();

	if (number == 0 || count == 0 || count > HP_MAX_ZONES)
		return NULL;
	for (uint32 i = 0; i < count; i++)
	{
		zones->low[i] = (HmKey) from[i].low[1] << 64 | from[i].low[0];
		zones->resident[i] = from[i].resident != 0;
		if (i == 0 ? zones->low[i] != 0 : zones->low[i] <= zones->low[i - 1])
			return NULL;
	}
	zones->count = count;
	make_buckets(zones);
	note_residents(zones);
	zones->number = number;
	return zones;
}

void
hm_zones_write(const HmZones *zones, HpZone *to)
{
	for (uint32 i = 0; i < zones->count; i++)
	{
		to[i].low[0] = (uint64) zones->low[i];
		to[i].low[1] = (uint64) (zones->low[i] >> 64);
		to[i].resident = zones->resident[i];
		to[i].unused = 0;
	}
}

/*
 * Zones have about as many leaves each.  Bounds are keys alone: a leaf that begins in the middle of a
 * key's entries belongs to two zones.
 */
HmZones *
hm_zones_divide(Oid relation, const HmKey *lows, uint32 count)
{
	HmZones    *zones = new_zones();
	uint32		wanted = Max(1, Min(count / HM_ZONE_LEAVES, HP_MAX_ZONES));

	zones->low[0] = 0;
	zones->count = 1;
	for (uint32 i = 1; i < wanted; i++)
	{
		HmKey		low = lows[(uint64) i * count / wanted];

		if (low > zones->low[zones->count - 1])
			zones->low[zones->count++] = low;
	}
	memset(zones->resident, 0, sizeof(zones->resident));
	make_buckets(zones);
	note_residents(zones);
	zones->number = (uint64) hm_heat_divide(relation, zones->count) << 32 | 1;
	return zones;
}

HmZones *
hm_zones_change(const HmZones *zones)
{
	HmZones    *result;

	if (kept[kept_next] == zones)
		kept_next = (kept_next + 1) % KEPT;
	result = new_zones();
	*result = *zones;
	result->number = zones->number + 1;
	return result;
}

bool
hm_zones_touch(const HmZones *zones, const bool *flags, HmKey low, HmKey high)
{
	uint32		last = hm_zone_of(zones, sizeof(HmKey), high);

	for (uint32 zone = hm_zone_of(zones, sizeof(HmKey), low); zone <= last; zone++)
	{
		if (flags[zone])
			return true;
	}
	return false;
}

/* ----------------------------------------------------------------
 *		The choice of resident zones
 * ----------------------------------------------------------------
 */

static pg_attribute_always_inline void
count_probes(const HmZones *zones, const HmProbes *probes, Size key_size, uint32 *heat)
{
	for (uint32 i = 0; i < probes->count; i++)
		heat[hm_zone_of(zones, key_size, hm_key_get(probes->low, key_size, i))]++;
}

uint32
hm_zones_count(const HmZones *zones, const HmProbes *probes, Size key_size, uint32 *heat)
{
	if (key_size == sizeof(uint64))
		count_probes(zones, probes, sizeof(uint64), heat);
	else
		count_probes(zones, probes, sizeof(HmKey), heat);
	return probes->count;
}

/* A zone and how hot it is. */
typedef struct Heat
{
	uint32		heat;
	uint32		zone;
} Heat;

/* The hottest ones first, then those with lower keys: neighbours share a leaf. */
static int
compare_heat(const void *a, const void *b)
{
	const Heat *left = a;
	const Heat *right = b;

	if (left->heat != right->heat)
		return left->heat > right->heat ? -1 : 1;
	return left->zone < right->zone ? -1 : 1;
}

/* Heat in steps of a factor of two: what differs by chance has the same step, mostly. */
static uint32
heat_step(uint32 heat)
{
	uint32		step = 0;

	/* 1.41 times as much is the next step, from 8 on. */
	for (; heat >= 16; heat /= 2)
		step += 2;
	return heat < 8 ? heat : heat < 11 ? step + 8 : step + 9;
}

/*
 * What a zone needs: its leaves, and one that begins before it.
 */
static inline uint32
zone_room(const uint32 *leaves, uint32 zone)
{
	return leaves[zone] + 1;
}

double
hm_zones_choose(HmZones *zones, const uint32 *heat, const uint32 *leaves, uint32 room)
{
	Heat	   *order = palloc(zones->count * sizeof(Heat));
	double		all = 0;
	double		all_leaves = 0;
	double		chosen = 0;
	double		chosen_leaves = 0;

	for (uint32 i = 0; i < zones->count; i++)
	{
		order[i].heat = heat_step(heat[i]);
		order[i].zone = i;
		all += heat[i];
		all_leaves += leaves[i];
	}
	qsort(order, zones->count, sizeof(Heat), compare_heat);
	for (uint32 i = 0; i < zones->count; i++)
	{
		uint32		zone = order[i].zone;

		if (zone_room(leaves, zone) > room)
			continue;
		room -= zone_room(leaves, zone);
		zones->resident[zone] = true;
		chosen += heat[zone];
		chosen_leaves += leaves[zone];
	}
	pfree(order);
	note_residents(zones);
	return all > 0 ? chosen / all : chosen_leaves / Max(1, all_leaves);
}

/*
 * List hot zones that are not resident, and cold ones that are: the hottest and the coldest first, as
 * many as can be exchanged one for one.  Returns their number, and sets that of resident zones.
 */
static uint32
list_exchanges(const HmZones *zones, const uint32 *heat, Heat *hot, Heat *cold, uint32 *residents)
{
	uint32		hot_count = 0;
	uint32		cold_count = 0;
	uint32		pairs = 0;

	for (uint32 i = 0; i < zones->count; i++)
	{
		Heat		one = {heat[i], i};

		if (zones->resident[i])
			cold[cold_count++] = one;
		else
			hot[hot_count++] = one;
	}
	qsort(hot, hot_count, sizeof(Heat), compare_heat);
	qsort(cold, cold_count, sizeof(Heat), compare_heat);
	for (uint32 i = 0; i < cold_count / 2; i++)
	{
		Heat		swap = cold[i];

		cold[i] = cold[cold_count - 1 - i];
		cold[cold_count - 1 - i] = swap;
	}
	*residents = cold_count;
	while (pairs < hot_count && pairs < cold_count &&
		   hot[pairs].heat > (uint64) MUCH_HOTTER * cold[pairs].heat + NOISE)
		pairs++;
	return pairs;
}

bool
hm_zones_want_exchange(const HmZones *zones, const uint32 *heat)
{
	Heat	   *hot = palloc(zones->count * sizeof(Heat));
	Heat	   *cold = palloc(zones->count * sizeof(Heat));
	uint32		residents;
	uint32		pairs = list_exchanges(zones, heat, hot, cold, &residents);
	double		all = 0;
	double		gain = 0;

	for (uint32 i = 0; i < zones->count; i++)
		all += heat[i];
	for (uint32 i = 0; i < pairs; i++)
		gain += (double) hot[i].heat - cold[i].heat;
	pfree(hot);
	pfree(cold);
	return gain > all * WORTH_SHARE;
}

/* Zones that leave make at least this much room. */
static inline int64
zone_gives(const uint32 *leaves, uint32 zone)
{
	return Max((int64) leaves[zone] - 1, 0);
}

void
hm_zones_exchange(HmZones *zones, const uint32 *heat, const uint32 *leaves, int64 spare, uint32 limit)
{
	Heat	   *hot = palloc(zones->count * sizeof(Heat));
	Heat	   *cold = palloc(zones->count * sizeof(Heat));
	uint32		cold_count;
	uint32		pairs = list_exchanges(zones, heat, hot, cold, &cold_count);
	uint32		gone = 0;
	uint32		come = 0;
	uint32		moved = 0;

	for (; spare < 0 && gone < cold_count; gone++)
	{
		spare += zone_gives(leaves, cold[gone].zone);
		zones->resident[cold[gone].zone] = false;
	}
	for (; gone < pairs && (moved == 0 || moved + zone_room(leaves, hot[come].zone) <= limit); gone++)
	{
		spare += zone_gives(leaves, cold[gone].zone);
		zones->resident[cold[gone].zone] = false;
		if (zone_room(leaves, hot[come].zone) > spare)
			continue;
		spare -= zone_room(leaves, hot[come].zone);
		moved += zone_room(leaves, hot[come].zone);
		zones->resident[hot[come++].zone] = true;
	}
	note_residents(zones);
	pfree(hot);
	pfree(cold);
}
