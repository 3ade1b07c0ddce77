/*
 * gpu_search_wide.cu
 *		The search kernels for keys of 128 bits.
 */
#include "gpu_search.cuh"

#define FOR_KEY(Key) \
	template cudaError_t harmonia::launch_search<Key>(const HtGroupChoice &, bool, \
													  const Tree<Key> &, const Probes<Key> &, \
													  const Results &, cudaStream_t);

FOR_KEY(harmonia::Wide)
