/*
 * shared.c
 *		Shared memory of the server's side of the device, and its settings.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "device/ahead.h"
#include "device/choice.h"
#include "device/device.h"
#include "device/search.h"
#include "device/watch.h"

/* The number of words, if no setting says it, and at most. */
#define MIN_WORDS (1 << 20)
#define MAX_WORDS ((1 << 26) - 1)

HmDeviceShared *hm_device = NULL;

/* GUCs */
int hm_gpu_mode = HM_GPU_AUTO;
char *hm_gpu_devices = NULL;
int hm_device_memory = 0;
int hm_device_host_memory = 0;
bool hm_enable_device = true;
bool hm_force_device = false;
bool hm_resync_ahead = true;
int hm_device_restart_delay = 1000;
static int max_resident_blocks = 0;

static const struct config_enum_entry gpu_modes[] = {{"off", HM_GPU_OFF, false},
													 {"auto", HM_GPU_AUTO, false},
													 {"on", HM_GPU_ON, false},
													 {"host", HM_GPU_HOST, false},
													 {NULL, 0, false}};

static shmem_request_hook_type next_shmem_request = NULL;
static shmem_startup_hook_type next_shmem_startup = NULL;

/*
 * The number of words: as many as the setting says, or as an index needs that is twice as large as
 * shared buffers.  Batches against a larger one wait for the disk.
 */
static uint32
count_words(void)
{
	if (max_resident_blocks > 0)
		return (uint32) max_resident_blocks;
	return (uint32) Min(MAX_WORDS, Max(MIN_WORDS, 2 * (uint64) NBuffers));
}

static Size
shared_size(void)
{
	Size result = offsetof(HmDeviceShared, words);

	result = add_size(result,
					  mul_size(count_words(), sizeof(pg_atomic_uint64) + sizeof(pg_atomic_uint32)));
	return add_size(result, mul_size(hm_summary_words(count_words()), sizeof(pg_atomic_uint64)));
}

static void
request_shared(void)
{
	if (next_shmem_request)
		next_shmem_request();
	RequestAddinShmemSpace(shared_size());
	RequestNamedLWLockTranche("harmonia", 1);
}

static void
start_shared(void)
{
	bool found;

	if (next_shmem_startup)
		next_shmem_startup();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	hm_device = ShmemInitStruct("harmonia", shared_size(), &found);
	if (!found)
	{
		memset(hm_device, 0, offsetof(HmDeviceShared, words));
		hm_device->lock = &GetNamedLWLockTranche("harmonia")->lock;
		if (!pg_strong_random(&hm_device->generation, sizeof(hm_device->generation)))
			ereport(FATAL, (errcode(ERRCODE_INTERNAL_ERROR),
							errmsg("could not generate a random number")));
		pg_atomic_init_u32(&hm_device->watched, 0);
		pg_atomic_init_u32(&hm_device->version, 1);
		pg_atomic_init_u32(&hm_device->suspected, 0);
		pg_atomic_init_u64(&hm_device->queued_sync, 0);
		pg_atomic_init_u64(&hm_device->queued_search, 0);
		pg_atomic_init_u32(&hm_device->queued, 0);
		pg_atomic_init_u32(&hm_device->lanes, 1);
		pg_atomic_init_u64(&hm_device->setup_ns, 0);
		hm_device->info.state = HM_DEVICE_OFF;
		hm_device->stats_since = GetCurrentTimestamp();
		hm_device->info.since = hm_device->stats_since;
		hm_device->word_count = count_words();
		for (int i = 0; i < HM_DEVICE_SLOTS; i++)
		{
			pg_atomic_init_u64(&hm_device->slots[i].structure, 0);
			pg_atomic_init_u32(&hm_device->slots[i].marked, 0);
			pg_atomic_init_u32(&hm_device->slots[i].overflow, 0);
			pg_atomic_init_u64(&hm_device->slots[i].owed, 0);
			pg_atomic_init_u64(&hm_device->slots[i].sync, 0);
		}
		for (uint32 i = 0; i < hm_summary_words(hm_device->word_count); i++)
			pg_atomic_init_u64(&hm_device_summary()[i], 0);

		/*
		 * Words are initialized when they are first used, so that the server starts
		 * quickly.
		 */
	}
	hm_watch_start();
	LWLockRelease(AddinShmemInitLock);
}

/* The daemon takes numbers below this (cuda/harmonia_device.h). */
#define MAX_GPU_DEVICES 16

/* Check harmonia.gpu_devices: "all", or different numbers. */
static bool
check_gpu_devices(char **value, void **extra, GucSource source)
{
	const char *text = *value;
	uint32 seen = 0;

	if (strcmp(text, "all") == 0)
		return true;
	for (;;)
	{
		char *end;
		long number = strtol(text, &end, 10);

		if (end == text || number < 0 || number >= MAX_GPU_DEVICES || (*end != '\0' && *end != ','))
		{
			GUC_check_errdetail(
				"It must be \"all\", or numbers from 0 to %d with commas between them.",
				MAX_GPU_DEVICES - 1);
			return false;
		}
		if (seen & (UINT32_C(1) << number))
		{
			GUC_check_errdetail("Device %ld occurs twice.", number);
			return false;
		}
		seen |= UINT32_C(1) << number;
		if (*end == '\0')
			return true;
		text = end + 1;
	}
}

static void
define_settings(void)
{
	DefineCustomEnumVariable("harmonia.gpu", "Chooses the device for batch lookups.",
							 "\"auto\" uses a GPU if there is one, \"on\" warns if there is none, "
							 "\"host\" searches copies on the CPU, for tests.",
							 &hm_gpu_mode, HM_GPU_AUTO, gpu_modes, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomStringVariable(
		"harmonia.gpu_devices", "Sets the GPUs that batches are searched on.",
		"Their numbers, as CUDA counts them, with commas between them, or \"all\".",
		&hm_gpu_devices, "0", PGC_SIGHUP, 0, check_gpu_devices, NULL, NULL);
	DefineCustomIntVariable("harmonia.device_memory",
							"Limits the memory of each device for copies of indexes.",
							"0 means nearly all of the device's memory.", &hm_device_memory, 0, 0,
							INT_MAX, PGC_SIGHUP, GUC_UNIT_MB, NULL, NULL, NULL);
	DefineCustomIntVariable("harmonia.device_host_memory",
							"Sets how much of this machine's memory copies of indexes may take for "
							"what the device has no room for.",
							"The memory is pinned, and the device reads it where it is. With 0 the "
							"CPU searches what the device has no room for.",
							&hm_device_host_memory, 0, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_MB, NULL,
							NULL, NULL);
	DefineCustomIntVariable(
		"harmonia.device_restart_delay",
		"Sets the time after which a device daemon that has ended is started again.",
		"It doubles each time, up to a minute.", &hm_device_restart_delay, 1000, 10, 60000,
		PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("harmonia.max_resident_blocks",
							"Limits the blocks of all indexes that have a copy on the device.",
							"Each block takes 12 bytes of shared memory. 0 means twice "
							"shared_buffers, and at least 8 GB.",
							&max_resident_blocks, 0, 0, MAX_WORDS, PGC_POSTMASTER, 0, NULL, NULL,
							NULL);
	DefineCustomBoolVariable("harmonia.enable_device", "Enables batch lookups on the device.", NULL,
							 &hm_enable_device, true, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("harmonia.resync_ahead",
							 "Brings copies that are searched up to date while indexes change.",
							 "A process of the background does so. Otherwise the next batch does.",
							 &hm_resync_ahead, true, PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable(
		"harmonia.force_device", "Uses the device for all batch lookups, whatever they cost.", NULL,
		&hm_force_device, false, PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
}

void
hm_device_init(void)
{
	/* Without preloading there is no device, and its settings would have no effect. */
	if (!process_shared_preload_libraries_in_progress)
		return;
	define_settings();
	next_shmem_request = shmem_request_hook;
	shmem_request_hook = request_shared;
	next_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = start_shared;
	hm_watch_init();
	hm_queue_init();
	hm_supervisor_register();
	hm_remote_methods = &hm_search_methods;
}

HmDeviceState
hm_device_state(void)
{
	HmDeviceState state;

	if (hm_device == NULL)
		return HM_DEVICE_NOT_LOADED;
	LWLockAcquire(hm_device->lock, LW_SHARED);
	state = hm_device->info.state;
	LWLockRelease(hm_device->lock);
	return state;
}

void
hm_device_info(HmDeviceInfo *info)
{
	memset(info, 0, sizeof(*info));
	info->state = HM_DEVICE_NOT_LOADED;
	if (hm_device == NULL)
		return;
	LWLockAcquire(hm_device->lock, LW_SHARED);
	*info = hm_device->info;
	LWLockRelease(hm_device->lock);
}

uint64
hm_device_room(void)
{
	HmDeviceInfo info;
	uint64 beyond = (uint64) hm_device_host_memory * 1024 * 1024;

	if (hm_device_memory > 0)
		return (uint64) hm_device_memory * 1024 * 1024 + beyond;
	hm_device_info(&info);
	return info.memory > 0 ? info.memory + beyond : 0;
}
