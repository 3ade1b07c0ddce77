/*
 * gpu_search_wide.cu
 *		The search kernels for keys of 128 and 256 bits.
 */
#include "gpu_search.cuh"

#define FOR_KEY(Key) \
	template cudaError_t harmonia::launch_search<Key>(const HtGroupChoice &, bool, \
													  const Tree<Key> &, const Probes<Key> &, \
													  const Results &, cudaStream_t);

FOR_KEY(harmonia::Wide<2>)
FOR_KEY(harmonia::Wide<4>)
