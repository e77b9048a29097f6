// Sums that the host waits for: the last of all blocks writes them into its memory.
#pragma once

#include "plans.h"

namespace bitgrove {

// What a question's kernels add to: zeros, when the first of them starts.
template <class Sums>
BG_FN Sums* sums_of(const AnswerPlace& place) {
  return reinterpret_cast<Sums*>(place.sums);
}

// Whole blocks call this, after the last addition. The next question finds zeros again.
BG_FN void tell_host(const AnswerPlace& place) {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned last = static_cast<unsigned>(place.n_blocks) - 1;
    is_last = atomicInc(reinterpret_cast<unsigned*>(place.n_done), last) == last;  // then zero
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  volatile int64_t* sums = reinterpret_cast<volatile int64_t*>(place.sums);
  volatile int64_t* told = reinterpret_cast<volatile int64_t*>(place.told);
  for (int64_t i = threadIdx.x; i < place.n_words; i += blockDim.x) {
    told[1 + i] = sums[i];
    sums[i] = 0;
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0) *told = 1;
}

}  // namespace bitgrove
