/*
 * gpu_search_32.cu
 *		The search kernels for 32-bit keys.
 */
#include "gpu_search.cuh"

template cudaError_t harmonia::launch_search<uint32_t>(const HtGroupChoice &, bool,
													  const Tree<uint32_t> &,
													  const Probes<uint32_t> &,
													  const Results &, cudaStream_t);
