/*
 * gpu_search_wide.cu
 *		The search kernels for keys of 128 bits.
 */
#include "gpu_search.cuh"

INSTANTIATE_SEARCH(harmonia::Wide)
