/*
 * no_cuda.cc
 *		Replaces the CUDA device if there is no CUDA compiler.
 */
#include "device_base.h"

namespace
{

struct NoDevice : HdDevice
{
	NoDevice() : HdDevice(HD_CUDA)
	{
	}
	HdStatus open(int) override
	{
		return fail(HD_UNSUPPORTED, "built without CUDA");
	}
	HdStatus info(HdInfo *) override
	{
		return fail(HD_UNSUPPORTED, "built without CUDA");
	}
	HdStatus pin(void *, size_t) override
	{
		return HD_UNSUPPORTED;
	}
	HdStatus unpin(void *) override
	{
		return HD_UNSUPPORTED;
	}
	HdIndex *create_index() override
	{
		throw std::bad_alloc();
	}
};

} /* namespace */

HdDevice *
hd_cuda_device()
{
	return new NoDevice;
}

int
hd_cuda_count()
{
	return 0;
}
