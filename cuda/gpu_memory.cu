/*
 * gpu_memory.cu
 *		Memory for the pages of a copy, which grows: on the device, and beyond that on its host.
 */
#include "gpu_memory.h"

#include <algorithm>
#include <cudaTypedefs.h>
#include <mutex>

#include "harmonia_device.h"

namespace harmonia
{

/*
 * Memory up to this size moves when it grows: mapped memory comes in units of some megabytes, and
 * copies can be many and small.
 */
static constexpr size_t moved_max = 64 << 20;

/* What memory is, and the unit that it comes in; 0: it cannot be mapped. */
struct MappedKind
{
	CUmemAllocationProp properties;
	size_t unit;
};

/* Functions of the driver, to which nothing is linked.  All of them, or none, are there. */
struct Driver
{
	PFN_cuMemAddressReserve_v10020 reserve;
	PFN_cuMemAddressFree_v10020 free;
	PFN_cuMemCreate_v10020 create;
	PFN_cuMemRelease_v10020 release;
	PFN_cuMemMap_v10020 map;
	PFN_cuMemUnmap_v10020 unmap;
	PFN_cuMemSetAccess_v10020 set_access;
	PFN_cuMemGetAllocationGranularity_v10020 granularity;
	bool found;
};

/* The memory of a device, and of the host near it. */
struct Kinds
{
	MappedKind device;
	MappedKind host;
};

template <typename Function>
static bool
find(const char *name, Function *function)
{
	cudaDriverEntryPointQueryResult found;
	void *entry = nullptr;
	constexpr unsigned int version = 10020;
	cudaError_t error;

#if CUDART_VERSION >= 12050
	error = cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &found);
#else
	(void) version;
	error = cudaGetDriverEntryPoint(name, &entry, cudaEnableDefault, &found);
#endif
	*function = (Function) entry;
	if (error != cudaSuccess)
		cudaGetLastError();
	return error == cudaSuccess && found == cudaDriverEntryPointSuccess && entry != nullptr;
}

static void
find_unit(const Driver &driver, CUmemLocationType type, int id, MappedKind *kind)
{
	kind->properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	kind->properties.location.type = type;
	kind->properties.location.id = id;
	if (driver.granularity(&kind->unit, &kind->properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) !=
		CUDA_SUCCESS)
		kind->unit = 0;
}

static Driver
find_driver()
{
	Driver driver = {};

	driver.found = find("cuMemAddressReserve", &driver.reserve) &&
				   find("cuMemAddressFree", &driver.free) && find("cuMemCreate", &driver.create) &&
				   find("cuMemRelease", &driver.release) && find("cuMemMap", &driver.map) &&
				   find("cuMemUnmap", &driver.unmap) &&
				   find("cuMemSetAccess", &driver.set_access) &&
				   find("cuMemGetAllocationGranularity", &driver.granularity);
	return driver;
}

static const Driver &
driver()
{
	static const Driver found = find_driver();

	return found;
}

static Kinds
find_kinds(int device)
{
	Kinds kinds = {};

	if (!driver().found)
		return kinds;
	find_unit(driver(), CU_MEM_LOCATION_TYPE_DEVICE, device, &kinds.device);
#if CUDART_VERSION >= 12020
	{
		int node = 0;

		/* The memory that is nearest. */
		if (cudaDeviceGetAttribute(&node, cudaDevAttrHostNumaId, device) != cudaSuccess)
			cudaGetLastError();
		find_unit(driver(), CU_MEM_LOCATION_TYPE_HOST_NUMA, std::max(node, 0), &kinds.host);

		/* Parts of both kinds lie side by side. */
		if (kinds.device.unit > 0 && kinds.host.unit > 0)
			kinds.device.unit = kinds.host.unit = std::max(kinds.device.unit, kinds.host.unit);
	}
#endif
	return kinds;
}

/* The kinds of memory of the calling thread's device.  A thread that has none cannot map any. */
static const Kinds &
kinds()
{
	static const Kinds none = {};
	static std::once_flag asked[HD_MAX_DEVICES];
	static Kinds found[HD_MAX_DEVICES];
	int device;

	if (cudaGetDevice(&device) != cudaSuccess || device < 0 || device >= HD_MAX_DEVICES)
		return none;
	std::call_once(asked[device], [device] { found[device] = find_kinds(device); });
	return found[device];
}

static cudaError_t
error_of(CUresult result)
{
	return result == CUDA_SUCCESS             ? cudaSuccess :
		   result == CUDA_ERROR_OUT_OF_MEMORY ? cudaErrorMemoryAllocation :
												cudaErrorUnknown;
}

static size_t
round_up(size_t size, size_t unit)
{
	return (size + unit - 1) / unit * unit;
}

cudaError_t
GrowingMemory::grow(size_t needed, bool on_host, cudaStream_t stream)
{
	if (needed <= room)
		return cudaSuccess;
	if (!on_host && (needed <= moved_max || kinds().device.unit == 0))
		return parts.empty() ? move(needed, stream) : map(needed, false, stream);

	/* What is in an ordinary allocation stays on the device. */
	if (on_host && parts.empty() && room > 0)
	{
		cudaError_t error = map(room, false, stream);

		if (error != cudaSuccess || needed <= room)
			return error;
	}
	return map(needed, on_host, stream);
}

/* Take a larger allocation, and copy the content. */
cudaError_t
GrowingMemory::move(size_t needed, cudaStream_t stream)
{
	void *more;
	cudaError_t error = cudaMalloc(&more, needed);

	if (error != cudaSuccess)
		return error;
	error = cudaMemsetAsync((char *) more + room, 0, needed - room, stream);
	if (error == cudaSuccess && room > 0)
		error = cudaMemcpyAsync(more, start, room, cudaMemcpyDeviceToDevice, stream);
	if (error == cudaSuccess)
		error = cudaStreamSynchronize(stream);
	if (error != cudaSuccess)
	{
		cudaFree(more);
		return error;
	}
	free();
	start = (char *) more;
	room = needed;
	return cudaSuccess;
}

/* Map an allocation, and let the device use it. */
CUresult
GrowingMemory::map_part(CUdeviceptr at, const Part &part) const
{
	CUmemAccessDesc access = {};
	CUresult result = driver().map(at, part.size, 0, part.handle, 0);

	if (result != CUDA_SUCCESS)
		return result;
	access.location = kinds().device.properties.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	result = driver().set_access(at, part.size, &access, 1);
	if (result != CUDA_SUCCESS)
		driver().unmap(at, part.size);
	return result;
}

/* Map all allocations at other addresses.  *mapped are the bytes mapped, also on failure. */
CUresult
GrowingMemory::map_all(CUdeviceptr at, size_t *mapped) const
{
	*mapped = 0;
	for (const Part &part : parts)
	{
		CUresult result = map_part(at + *mapped, part);

		if (result != CUDA_SUCCESS)
			return result;
		*mapped += part.size;
	}
	return CUDA_SUCCESS;
}

/*
 * Find addresses for so many bytes more than the "kept" ones.  If there are none left behind these,
 * all allocations get other addresses; an allocation can be mapped twice meanwhile.  What is new in
 * *place is undone by the caller on failure.
 */
CUresult
GrowingMemory::find_place(size_t kept, size_t more, size_t unit, Place *place) const
{
	CUresult result;

	*place = {(CUdeviceptr) start, addresses, kept};
	if (kept + more <= addresses)
		return CUDA_SUCCESS;
	place->size = round_up(std::max(2 * addresses, kept + more), unit);
	result = driver().reserve(&place->begin, place->size, 0, 0, 0);
	if (result != CUDA_SUCCESS)
	{
		*place = {(CUdeviceptr) start, addresses, kept};
		return result;
	}
	return map_all(place->begin, &place->mapped);
}

/*
 * Give up a place that is not to be used, or no longer; what was mapped before at the same
 * addresses stays.
 */
void
GrowingMemory::leave_place(const Place &place, size_t kept) const
{
	bool is_own = place.begin != 0 && place.begin == (CUdeviceptr) start && place.size == addresses;

	if (place.mapped > (is_own ? kept : 0))
		driver().unmap(place.begin + (is_own ? kept : 0), place.mapped - (is_own ? kept : 0));
	if (!is_own && place.size > 0)
		driver().free(place.begin, place.size);
}

/* Add an allocation behind the others, or in place of an ordinary one. */
cudaError_t
GrowingMemory::map(size_t needed, bool on_host, cudaStream_t stream)
{
	const MappedKind &kind = on_host ? kinds().host : kinds().device;
	bool moves = parts.empty(); /* from an ordinary allocation, if there is any */
	size_t kept = moves ? 0 : room;
	Part part = {0, round_up(needed - kept, kind.unit)};
	Place place;
	CUresult result;
	cudaError_t error;

	parts.reserve(parts.size() + 1);
	result = driver().create(&part.handle, part.size, &kind.properties, 0);
	if (result != CUDA_SUCCESS)
		return on_host ? cudaErrorMemoryAllocation : error_of(result);
	result = find_place(kept, part.size, kind.unit, &place);
	if (result == CUDA_SUCCESS)
		result = map_part(place.begin + kept, part);
	if (result == CUDA_SUCCESS)
		place.mapped += part.size;
	error = error_of(result);
	if (error == cudaSuccess)
		error = cudaMemsetAsync((char *) place.begin + kept, 0, part.size, stream);
	if (error == cudaSuccess && moves && room > 0)
		error =
			cudaMemcpyAsync((char *) place.begin, start, room, cudaMemcpyDeviceToDevice, stream);
	if (error == cudaSuccess)
		error = cudaStreamSynchronize(stream);
	if (error != cudaSuccess)
	{
		leave_place(place, kept);
		driver().release(part.handle);
		return error;
	}

	if (moves)
		cudaFree(start);
	else if (place.begin != (CUdeviceptr) start)
	{
		driver().unmap((CUdeviceptr) start, room);
		driver().free((CUdeviceptr) start, addresses);
	}
	parts.push_back(part);
	start = (char *) place.begin;
	addresses = place.size;
	room = kept + part.size;
	return cudaSuccess;
}

void
GrowingMemory::free()
{
	if (parts.empty())
		cudaFree(start);
	else
	{
		driver().unmap((CUdeviceptr) start, room);
		driver().free((CUdeviceptr) start, addresses);
		for (const Part &part : parts)
			driver().release(part.handle);
		parts.clear();
	}
	start = nullptr;
	room = addresses = 0;
}

bool
host_memory_maps()
{
	GrowingMemory memory;
	size_t unit = kinds().host.unit;
	bool maps;

	/* Zeros are written, by the device. */
	maps = unit > 0 && kinds().device.unit > 0 && memory.grow(unit, true, nullptr) == cudaSuccess;
	cudaGetLastError();
	return maps;
}

} /* namespace harmonia */
