/*
 * gpu_search_64.cu
 *		The search kernels for 64-bit keys.
 */
#include "gpu_search.cuh"

INSTANTIATE_SEARCH(uint64_t)
