/*
 * zones.h
 *		Partial copies: which ranges of an index's keys a device has; for the files of this
 *		folder only.
 *
 * An index that does not fit the device's memory is divided into zones, ranges of keys of some
 * leaves each.  A partial copy has all leaves that can have keys of its resident zones.  So a probe
 * whose keys are all in resident zones may be searched there, and no other.  The zones are kept by the
 * daemon, with the copy; backends have copies of them, which are valid as long as the daemon says that
 * their number is the copy's (protocol.h).
 */
#ifndef HARMONIA_LOOKUP_ZONES_H
#define HARMONIA_LOOKUP_ZONES_H

#include "am/am.h"
#include "am/keyarray.h"
#include "device/device.h"
#include "lookup/lookup.h"

/* Zones are found by the top bits of a key's distance from the first bound, then by bisection. */
#define HM_ZONE_BUCKETS		16384

typedef struct HmZones
{
	/*
	 * The upper half is the number of the division into zones, the lower half counts the changes of
	 * what is resident.
	 */
	uint64		number;
	uint32		count;
	HmKey		low[HP_MAX_ZONES];	/* the first keys; low[0] is 0 */
	bool		resident[HP_MAX_ZONES];

	int			shift;
	uint16		first[HM_ZONE_BUCKETS + 1]; /* the zone in which a bucket begins */
	uint8		bucket_is[HM_ZONE_BUCKETS]; /* whether its zones are resident, if that is the same for all */
} HmZones;

/* Values of bucket_is */
#define HM_BUCKET_ABSENT	0
#define HM_BUCKET_RESIDENT	1
#define HM_BUCKET_MIXED		2

/* The bucket of a key that is not below low[1]. */
static pg_attribute_always_inline uint32
hm_zone_bucket(const HmZones *zones, Size key_size, HmKey key)
{
	if (key_size == sizeof(uint64))
		return (uint32) Min(((uint64) key - (uint64) zones->low[1]) >> zones->shift, HM_ZONE_BUCKETS - 1);
	return (uint32) Min((key - zones->low[1]) >> zones->shift, HM_ZONE_BUCKETS - 1);
}

static inline uint32
hm_zones_division(uint64 number)
{
	return (uint32) (number >> 32);
}

/* The zone of a key. */
static pg_attribute_always_inline uint32
hm_zone_of(const HmZones *zones, Size key_size, HmKey key)
{
	uint32		bucket;
	uint32		zone;
	uint32		last;

	if (zones->count == 1 || hm_key_less(key_size, key, zones->low[1]))
		return 0;
	bucket = hm_zone_bucket(zones, key_size, key);
	zone = zones->first[bucket];
	last = zones->first[bucket + 1];
	while (zone < last)
	{
		uint32		middle = (zone + last + 1) / 2;

		if (hm_key_less(key_size, key, zones->low[middle]))
			last = middle - 1;
		else
			zone = middle;
	}
	return zone;
}

/*
 * Is a key in a resident zone?  Sets *zone to its zone, or one near it.  Few buckets are mixed, so a processor
 * can tell what comes, unlike which zone of a bucket it is.
 */
static pg_attribute_always_inline bool
hm_zone_resident(const HmZones *zones, Size key_size, HmKey key, uint32 *zone)
{
	if (likely(zones->count > 1 && !hm_key_less(key_size, key, zones->low[1])))
	{
		uint32		bucket = hm_zone_bucket(zones, key_size, key);

		*zone = zones->first[bucket];
		if (likely(zones->bucket_is[bucket] != HM_BUCKET_MIXED))
			return zones->bucket_is[bucket] == HM_BUCKET_RESIDENT;
	}
	*zone = hm_zone_of(zones, key_size, key);
	return zones->resident[*zone];
}

/* Has any zone with keys from low to high its flag set? */
extern bool hm_zones_touch(const HmZones *zones, const bool *flags, HmKey low, HmKey high);

/* ----------------------------------------------------------------
 *		This backend's copies of zones
 *
 * A pointer is valid until zones of another number are found or made.
 * ----------------------------------------------------------------
 */

/* Find the zones with this number, or NULL. */
extern HmZones *hm_zones_find(uint64 number);

/* Take zones as the daemon sends them.  Returns NULL if they make no sense. */
extern HmZones *hm_zones_take(uint64 number, const HpZone *from, uint32 count);

/* Write zones as the daemon wants them. */
extern void hm_zones_write(const HmZones *zones, HpZone *to);

/*
 * Divide an index into zones, by low keys of its leaves in order.  None is resident.  Zones have this
 * many leaves or more, all about as many.
 */
#define HM_ZONE_LEAVES		8

extern HmZones *hm_zones_divide(Oid relation, const HmKey *lows, uint32 count);

/* The same zones under the next number, to change what is resident. */
extern HmZones *hm_zones_change(const HmZones *zones);

/* ----------------------------------------------------------------
 *		The choice of resident zones
 * ----------------------------------------------------------------
 */

/* Count the probes of a batch in each zone, and return how many were counted. */
extern uint32 hm_zones_count(const HmZones *zones, const HmProbes *probes, Size key_size, uint32 *heat);

/*
 * Make the hottest zones resident that have together at most so many leaves.  Returns the share of
 * the heat that is theirs, or of the leaves if all is cold.
 */
extern double hm_zones_choose(HmZones *zones, const uint32 *heat, const uint32 *leaves, uint32 room);

/* Would it pay to exchange zones? */
extern bool hm_zones_want_exchange(const HmZones *zones, const uint32 *heat);

/*
 * Make hot zones resident with at most "limit" leaves all together, or one zone, each in place of one that is much
 * colder.  "spare" is the number of leaves that the copy has room for besides; if it is below zero, the coldest
 * zones go first.
 */
extern void hm_zones_exchange(HmZones *zones, const uint32 *heat, const uint32 *leaves, int64 spare,
							  uint32 limit);

#endif							/* HARMONIA_LOOKUP_ZONES_H */
