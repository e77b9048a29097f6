// One call for the gradients of any loss: what it receives, and the table of losses.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "bindings/rooms.h"
#include "losses.h"

namespace bitgrove {

// Scores, grad and hess are (n_outputs, n_rows); label and weight have one entry per row.
struct GradientCall {
  const double *scores, *label;
  const float* weight;  // null: one everywhere
  float *grad, *hess;
  uint32_t* tops;  // bit pattern of the largest |grad| and of the largest hess of each output
  int64_t n_outputs, n_rows;
  LossParameters parameters;
  nb::sequence tables;  // of the objective, in its order
  int n_threads;
  Simd simd;
};

struct Loss {
  const char *name, *family;
  void (*gradients)(const GradientCall&);
};

std::vector<Loss> query_losses();

inline uint32_t magnitude_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits & 0x7FFFFFFFu;
}

// The largest magnitude; infinities and NaN are above all numbers.
BG_FN uint32_t largest_magnitude(const float* values, int64_t n) {
  uint32_t top = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = magnitude_bits(values[i]);
    top = bits > top ? bits : top;
  }
  return top;
}

// Threads may raise the same maximum at once.
inline void raise_top(uint32_t& top, uint32_t mine) {
  std::atomic_ref<uint32_t> shared(top);
  uint32_t seen = shared.load(std::memory_order_relaxed);
  while (seen < mine && !shared.compare_exchange_weak(seen, mine)) {
  }
}

}  // namespace bitgrove
