/*
 * heat.c
 *		How many probes fall into each zone of an index with a partial copy.
 *
 * The counts are in shared memory, in the index's slot.  They belong to one division of the index
 * into zones, which has a number.  They decay: each reading halves them.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "device/shared.h"

/* The weight of a batch in the mean share of probes in resident zones. */
#define SHARE_WEIGHT	0.2

uint32
hm_heat_divide(Oid relation, uint32 zones)
{
	HmSlot	   *slot;
	uint32		result;

	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	result = ++hm_device->divisions;
	slot = hm_slot_find(relation, true);
	if (slot != NULL)
	{
		slot->division = result;
		pg_atomic_write_u64(&slot->heat_sum, 0);
		for (uint32 i = 0; i < zones; i++)
			pg_atomic_write_u32(&slot->heat[i], 0);
	}
	LWLockRelease(hm_device->lock);
	return result;
}

/* The index's slot, if its counts belong to this division.  The caller holds the lock. */
static HmSlot *
find_division(Oid relation, uint32 division)
{
	HmSlot	   *slot = hm_slot_find(relation, false);

	return slot != NULL && slot->division == division ? slot : NULL;
}

void
hm_heat_add(Oid relation, uint32 division, const uint32 *probes, uint32 zones, uint32 sum)
{
	HmSlot	   *slot;

	LWLockAcquire(hm_device->lock, LW_SHARED);
	slot = find_division(relation, division);
	for (uint32 i = 0; slot != NULL && i < zones; i++)
	{
		if (probes[i] > 0)
			pg_atomic_fetch_add_u32(&slot->heat[i], probes[i]);
	}
	if (slot != NULL)
		pg_atomic_fetch_add_u64(&slot->heat_sum, sum);
	LWLockRelease(hm_device->lock);
}

bool
hm_heat_read(Oid relation, uint32 division, uint64 enough, uint32 *heat, uint32 zones)
{
	HmSlot	   *slot;
	bool		result;

	LWLockAcquire(hm_device->lock, LW_SHARED);
	slot = find_division(relation, division);
	result = slot != NULL && pg_atomic_read_u64(&slot->heat_sum) >= enough;
	if (result)
		pg_atomic_write_u64(&slot->heat_sum, 0);
	for (uint32 i = 0; result && i < zones; i++)
	{
		heat[i] = pg_atomic_read_u32(&slot->heat[i]);
		pg_atomic_fetch_sub_u32(&slot->heat[i], (int32) (heat[i] / 2));
	}
	LWLockRelease(hm_device->lock);
	return result;
}

void
hm_heat_set_share(Oid relation, double share)
{
	HmSlot	   *slot;

	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	slot = hm_slot_find(relation, true);
	if (slot != NULL)
		slot->share = (float) share;
	LWLockRelease(hm_device->lock);
}

void
hm_heat_note_share(Oid relation, double share)
{
	HmSlot	   *slot;

	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	slot = hm_slot_find(relation, false);
	if (slot != NULL)
		slot->share += (float) (SHARE_WEIGHT * (share - slot->share));
	LWLockRelease(hm_device->lock);
}
