/*
 * gpu_search_64.cu
 *		The search kernels for 64-bit keys.
 */
#include "gpu_search.cuh"

template cudaError_t harmonia::launch_search<uint64_t>(const HtGroupChoice &, bool,
													  const Tree<uint64_t> &,
													  const Probes<uint64_t> &,
													  const Results &, cudaStream_t);
