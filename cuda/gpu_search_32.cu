/*
 * gpu_search_32.cu
 *		The search kernels for 32-bit keys.
 */
#include "gpu_search.cuh"

INSTANTIATE_SEARCH(uint32_t)
