/*
 * division.c
 *		Dividing a batch: what a partial copy can answer, and what is left to the CPU.
 *
 * One pass over the keys writes them to two places.  What the zones have become since does no harm:
 * the search names their number, and is refused if that is not the copy's.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "lookup/division.h"

/* The arrays of one of the two parts. */
typedef struct Part
{
	void	   *low;
	void	   *high;			/* NULL: no batch had high keys */
	uint32	   *numbers;
	uint32		count;
} Part;

struct HmDivision
{
	MemoryContext context;
	Size		key_size;
	uint32		room;			/* of each array */
	Part		parts[2];		/* others, resident */
	uint32		heat[HP_MAX_ZONES];
};

HmDivision *
hm_division_create(MemoryContext context, Size key_size)
{
	HmDivision *division = MemoryContextAllocZero(context, sizeof(HmDivision));

	division->context = context;
	division->key_size = key_size;
	return division;
}

static void
free_parts(HmDivision *division)
{
	for (int i = 0; i < 2; i++)
	{
		Part	   *part = &division->parts[i];

		if (part->low != NULL)
		{
			pfree(part->low);
			pfree(part->numbers);
		}
		if (part->high != NULL)
			pfree(part->high);
		memset(part, 0, sizeof(*part));
	}
	division->room = 0;
}

void
hm_division_end(HmDivision *division)
{
	free_parts(division);
	pfree(division);
}

static void
make_room(HmDivision *division, uint32 count, bool has_high)
{
	if (division->room < count)
		free_parts(division);
	for (int i = 0; i < 2; i++)
	{
		Part	   *part = &division->parts[i];

		if (part->low == NULL)
		{
			part->low = MemoryContextAllocHuge(division->context, count * division->key_size);
			part->numbers = MemoryContextAllocHuge(division->context, count * sizeof(uint32));
			division->room = count;
		}
		if (has_high && part->high == NULL)
			part->high = MemoryContextAllocHuge(division->context, division->room * division->key_size);
		part->count = 0;
	}
}

/* Are all zones resident from this one to that of the key with which a range ends? */
static bool
all_resident(const HmZones *zones, uint32 zone, Size key_size, HmKey high)
{
	uint32		last = hm_zone_of(zones, key_size, high);

	while (zone <= last && zones->resident[zone])
		zone++;
	return zone > last;
}

static pg_attribute_always_inline void
divide_points(HmDivision *division, const HmZones *zones, const HmProbes *probes, const uint32 *numbers,
			  Size key_size)
{
	Part		others = division->parts[0];
	Part		resident = division->parts[1];

	/* A key is written to both places, and stays in one: there is no telling which for a processor. */
	for (uint32 i = 0; i < probes->count; i++)
	{
		HmKey		key = hm_key_get(probes->low, key_size, i);
		uint32		number = numbers == NULL ? i : numbers[i];
		uint32		zone;
		bool		is_resident = hm_zone_resident(zones, key_size, key, &zone);

		division->heat[zone]++;
		hm_key_put(others.low, key_size, others.count, key);
		others.numbers[others.count] = number;
		hm_key_put(resident.low, key_size, resident.count, key);
		resident.numbers[resident.count] = number;
		others.count += !is_resident;
		resident.count += is_resident;
	}
	division->parts[0].count = others.count;
	division->parts[1].count = resident.count;
}

static void
divide_ranges(HmDivision *division, const HmZones *zones, const HmProbes *probes, const uint32 *numbers)
{
	Size		key_size = division->key_size;

	for (uint32 i = 0; i < probes->count; i++)
	{
		HmKey		low = hm_key_get(probes->low, key_size, i);
		HmKey		high = hm_probe_high(probes, key_size, i);
		uint32		zone = hm_zone_of(zones, key_size, low);
		Part	   *part = &division->parts[all_resident(zones, zone, key_size, high)];

		division->heat[zone]++;
		hm_key_put(part->low, key_size, part->count, low);
		if (probes->high != NULL)
			hm_key_put(part->high, key_size, part->count, high);
		part->numbers[part->count++] = numbers == NULL ? i : numbers[i];
	}
}

static void
set_part(const Part *part, const HmProbes *all, HmProbes *probes)
{
	*probes = *all;
	probes->count = part->count;
	probes->low = part->low;
	probes->high = all->high == NULL ? NULL : part->high;
}

void
hm_divide(HmDivision *division, Relation index, const HmZones *zones, const HmProbes *probes,
		  const uint32 *numbers, HmDividedBatch *divided)
{
	make_room(division, probes->count, probes->high != NULL);
	memset(division->heat, 0, zones->count * sizeof(uint32));
	if (!hm_probes_are_points(probes))
		divide_ranges(division, zones, probes, numbers);
	else if (division->key_size == sizeof(uint64))
		divide_points(division, zones, probes, numbers, sizeof(uint64));
	else
		divide_points(division, zones, probes, numbers, sizeof(HmKey));

	hm_heat_add(RelationGetRelid(index), hm_zones_division(zones->number), division->heat,
				zones->count, probes->count);
	hm_heat_note_share(RelationGetRelid(index), (double) division->parts[1].count / probes->count);
	set_part(&division->parts[0], probes, &divided->others);
	set_part(&division->parts[1], probes, &divided->resident);
	divided->others_numbers = division->parts[0].numbers;
	divided->resident_numbers = division->parts[1].numbers;
}
