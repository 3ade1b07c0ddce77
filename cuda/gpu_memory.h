/*
 * gpu_memory.h
 *		Memory for the pages of a copy, which grows: on the device, and beyond that on its host.
 *
 * Only the CUDA device includes this.  The memory belongs to the device that is the calling
 * thread's current one; it is the same in all calls for the same memory.
 */
#ifndef HARMONIA_CUDA_GPU_MEMORY_H
#define HARMONIA_CUDA_GPU_MEMORY_H

#include <cstddef>
#include <cuda.h>
#include <cuda_runtime.h>
#include <vector>

namespace harmonia
{

/*
 * Memory that keeps its content while it grows.  Small memory moves to a larger allocation. Large
 * memory is mapped from several allocations, one behind the other, so that nothing is copied, and
 * no second one is needed for a while; where the driver can do that.  Allocations can also be of
 * the host's memory.  Kernels read and write that as they do the device's, over the bus.
 */
class GrowingMemory
{
  public:
	GrowingMemory() = default;
	GrowingMemory(const GrowingMemory &) = delete;
	GrowingMemory &operator=(const GrowingMemory &) = delete;
	~GrowingMemory()
	{
		free();
	}

	/*
	 * Make room for so many bytes; what is new is zeros, and is in the device's memory, or in the
	 * host's, which the process must be able to map.  On failure everything is as it was.  Nobody
	 * uses the memory meanwhile.
	 */
	cudaError_t grow(size_t needed, bool on_host, cudaStream_t stream);
	void free();

	char *at() const
	{
		return start;
	}

  private:
	char *start = nullptr;
	size_t room = 0; /* bytes that it takes */

	/* If it is mapped: the addresses reserved, and the allocations. */
	struct Part
	{
		CUmemGenericAllocationHandle handle;
		size_t size;
	};
	size_t addresses = 0;
	std::vector<Part> parts;

	/* Addresses for more than there is. */
	struct Place
	{
		CUdeviceptr begin;
		size_t size;
		size_t mapped; /* of this */
	};

	cudaError_t move(size_t needed, cudaStream_t stream);
	cudaError_t map(size_t needed, bool on_host, cudaStream_t stream);
	CUresult find_place(size_t kept, size_t more, size_t unit, Place *place) const;
	void leave_place(const Place &place, size_t kept) const;
	CUresult map_part(CUdeviceptr at, const Part &part) const;
	CUresult map_all(CUdeviceptr at, size_t *mapped) const;
};

/* Can the host's memory be mapped?  The answer comes from a trial. */
extern bool host_memory_maps();

} /* namespace harmonia */

#endif /* HARMONIA_CUDA_GPU_MEMORY_H */
