/*
 * stats.c
 *		Statistics of indexes' batches: counters and costs.
 *
 * A slot belongs to an index by its OID, whether the index is watched or not.  If there
 * are more indexes than slots, the least recently used one is forgotten.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "portability/instr_time.h"
#include "utils/timestamp.h"

#include "device/shared.h"
#include "device/stats.h"

HmDeviceCosts *
hm_stats_lock_costs(Oid relation, HmCopyState *state)
{
	HmSlot *slot;

	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	slot = hm_slot_find(relation, true);
	if (slot == NULL)
	{
		LWLockRelease(hm_device->lock);
		return NULL;
	}
	slot->used = ++hm_device->clock;
	if (state != NULL)
	{
		state->watched = slot->words > 0;
		state->loading = slot->loader != 0;
		state->lines = (uint64) Max(0, (int64) pg_atomic_read_u64(&slot->owed));
	}
	return &slot->costs;
}

uint64
hm_now_ms(void)
{
	instr_time now;

	INSTR_TIME_SET_CURRENT(now);
	return (uint64) (INSTR_TIME_GET_DOUBLE(now) * 1000) + 1;
}

void
hm_stats_unlock_costs(void)
{
	LWLockRelease(hm_device->lock);
}

void
hm_stats_add(Oid relation, const HmBatchCounts *counts)
{
	HmSlot *slot;

	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	slot = hm_slot_find(relation, true);
	if (slot != NULL)
	{
		hm_batch_counts_add(&slot->counts, counts);
		slot->used = ++hm_device->clock;
	}
	LWLockRelease(hm_device->lock);
}

HmDeviceStats *
hm_stats_read(int *count, TimestampTz *since)
{
	HmDeviceStats *result = palloc(HM_DEVICE_SLOTS * sizeof(HmDeviceStats));

	*count = 0;
	LWLockAcquire(hm_device->lock, LW_SHARED);
	*since = hm_device->stats_since;
	for (int i = 0; i < HM_DEVICE_SLOTS; i++)
	{
		HmSlot *slot = &hm_device->slots[i];

		if (!OidIsValid(slot->relation))
			continue;
		result[*count].database = slot->database;
		result[*count].relation = slot->relation;
		result[*count].watched = slot->words > 0;
		result[*count].counts = slot->counts;
		(*count)++;
	}
	LWLockRelease(hm_device->lock);
	return result;
}

void
hm_stats_reset(Oid relation)
{
	LWLockAcquire(hm_device->lock, LW_EXCLUSIVE);
	for (int i = 0; i < HM_DEVICE_SLOTS; i++)
	{
		HmSlot *slot = &hm_device->slots[i];
		HmBatchCounts reset = {.copy_memory = slot->counts.copy_memory,
							   .copy_host_memory = slot->counts.copy_host_memory};

		if (slot->database != MyDatabaseId || (OidIsValid(relation) && slot->relation != relation))
			continue;
		slot->counts = reset;
	}
	if (!OidIsValid(relation))
		hm_device->stats_since = GetCurrentTimestamp();
	LWLockRelease(hm_device->lock);
}
