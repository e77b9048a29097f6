// One call for the gradients of any loss: what it receives, and the table of losses.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "bindings/rooms.h"
#include "losses.h"
#include "objectives/labels.h"
#include "plans.h"

namespace bitgrove {

// Scores, grad and hess are (n_outputs, n_rows); label and weight have one entry per row.
struct GradientCall {
  const double* scores;
  Labels label;
  const float* weight;  // null: one everywhere
  float *grad, *hess;
  Magnitudes* magnitudes;  // of each output
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

// Adds a thread's counts of magnitudes to those of all.
inline void add_counts(const std::vector<int64_t>& mine, int64_t* all) {
  for (size_t b = 0; b < mine.size(); ++b)
    if (mine[b]) AtomicRef(all[b]).add(mine[b]);
}

// Adds one side's values to what was found of it, in blocks whose sums fit 32 bits.
BG_FN void take_magnitudes(const float* values, int64_t n, int64_t& logs, int64_t& rows,
                           uint32_t& top) {
  constexpr int64_t BLOCK = int64_t{1} << MAGNITUDE_SHIFT;
  uint32_t highest = top;
  for (int64_t begin = 0; begin < n; begin += BLOCK) {
    const int64_t end = n - begin < BLOCK ? n : begin + BLOCK;
    uint32_t sum = 0, count = 0;
    for (int64_t i = begin; i < end; ++i) {
      const uint32_t bits = magnitude_bits(values[i]);
      sum += bits >> MAGNITUDE_SHIFT;
      count += bits != 0;
      highest = bits > highest ? bits : highest;
    }
    logs += sum;
    rows += count;
  }
  top = highest;
}

BG_FN void take_magnitudes(const float* grad, const float* hess, int64_t n, Magnitudes& found) {
  take_magnitudes(grad, n, found.grad_logs, found.grad_rows, found.grad_top);
  take_magnitudes(hess, n, found.hess_logs, found.hess_rows, found.hess_top);
}

// Adds what a thread found to what all of them have.
inline void add_magnitudes(Magnitudes& all, const Magnitudes& mine) {
  const auto raise = [](uint32_t& top, uint32_t seen) {
    const AtomicRef shared(top);
    uint32_t old = shared.load();
    while (old < seen && !shared.exchange(old, seen)) {
    }
  };
  raise(all.grad_top, mine.grad_top);
  raise(all.hess_top, mine.hess_top);
  for (const auto sum : {&Magnitudes::grad_logs, &Magnitudes::hess_logs, &Magnitudes::grad_rows,
                         &Magnitudes::hess_rows})
    AtomicRef(all.*sum).add(mine.*sum);
}

}  // namespace bitgrove
