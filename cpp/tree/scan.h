// A node of which the best split is looked for, and the bins of its features as they are read from
// a slot, of any layout: one by one, and running sums, of 32-bit sums four at a time in the
// compiler's vector types; and which cuts leave enough on both sides.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "common/compiler.h"
#include "common/simd.h"
#include "gain.h"
#include "layouts.h"
#include "levels.h"
#include "plans.h"
#include "sampling.h"

namespace bitgrove {

// Its histogram, and what all its features need of it.
struct SearchedNode {
  const uint8_t *slot, *allowed;
  const SearchNode* searched;
  int width;
  double grad, hess, min_hess, hess_per_row;
  // For estimates: lambda in units of the integer hessian, the gain's unit, min_hess as an integer.
  float lambda = 0.0f;
  double estimate_unit = 0.0;
  int32_t least_hess = 0;
  bool can_estimate = false;

  // Sums of w + w bits have w / 4 bytes.
  const uint8_t* bins(int64_t first) const { return slot + first * (width / 4); }
  int64_t most_hess() const { return static_cast<int64_t>(hess - least_hess); }
};

// Estimates need 32-bit sums, products below 2^128, and no cancellation (L1 regularisation).
inline SearchedNode searched_node(const SearchNode& searched, const uint8_t* slot,
                                  const uint8_t* allowed, const GainRules& rules) {
  SearchedNode node{slot,          allowed,       &searched,         searched.width,
                    searched.grad, searched.hess, searched.min_hess, searched.hess_per_row};
  node.can_estimate = node.width <= 32 && node.min_hess > 0.0 && rules.reg_alpha == 0.0 &&
                      node.hess <= 0x1p31 - 1.0 && node.min_hess <= node.hess &&
                      rules.reg_lambda <= 0x1p32 * rules.hess_scale;
  if (!node.can_estimate) return node;
  node.lambda = static_cast<float>(rules.reg_lambda / rules.hess_scale);
  node.estimate_unit = rules.grad_scale * rules.grad_scale / rules.hess_scale;
  node.least_hess = static_cast<int32_t>(std::ceil(node.min_hess));
  return node;
}

// Unsigned, so that they may wrap. 16 bytes: longer vectors are taken apart into single numbers
// where a function is compiled for every instruction set.
using Lanes __attribute__((vector_size(16))) = uint32_t;
constexpr int N_LANES = 4;

BG_FN Lanes load_lanes(const int32_t* from) {
  Lanes x;
  std::memcpy(&x, from, sizeof x);
  return x;
}
BG_FN void store_lanes(Lanes x, int32_t* to) { std::memcpy(to, &x, sizeof x); }

// Each lane becomes the sum up to itself.
BG_FN Lanes add_lower_lanes(Lanes x) {
#if __has_builtin(__builtin_shufflevector)
  x += __builtin_shufflevector(Lanes{}, x, 0, 4, 5, 6);
  return x + __builtin_shufflevector(Lanes{}, x, 0, 1, 4, 5);
#else
  x += Lanes{0, x[0], x[1], x[2]};
  return x + Lanes{0, 0, x[0], x[1]};
#endif
}

// Calls visit(b, sums) for bins b to b + 3, and rest(b, sum) for the last ones. Now and then it
// asks enough(sum), and ends there if so; returns how many bins were visited.
template <class Visit, class Rest, class Enough>
BG_FN int scan_lanes(const int32_t* bins, int n_bins, Visit&& visit, Rest&& rest, Enough&& enough) {
  constexpr int GROUP = 4;
  Lanes before{};
  int b = 0;
  const auto last_lane = [](Lanes x) { return Lanes{x[3], x[3], x[3], x[3]}; };
  for (; b + GROUP * N_LANES <= n_bins; b += GROUP * N_LANES) {
    if (b > 0 && enough(static_cast<int32_t>(before[0]))) return b;
    // Each vector's own sums first: in a chain, each would wait for the one before it.
    Lanes total{};
    for (int i = 0; i < GROUP; ++i) {
      const Lanes own = add_lower_lanes(load_lanes(bins + b + i * N_LANES));
      visit(b + i * N_LANES, own + (before + total));
      total += last_lane(own);
    }
    before += total;
  }
  for (; b + N_LANES <= n_bins; b += N_LANES) {
    const Lanes sums = add_lower_lanes(load_lanes(bins + b)) + before;
    before = last_lane(sums);
    visit(b, sums);
  }
  uint32_t sum = before[0];
  for (; b < n_bins; ++b) rest(b, static_cast<int32_t>(sum += static_cast<uint32_t>(bins[b])));
  return n_bins;
}

// Whether one of N values is at least `bar`.
template <int N>
BG_FN bool any_reaches(const float* values, float bar) {
  using Floats __attribute__((vector_size(16))) = float;
  Lanes reached{};
  for (int i = 0; i < N; i += N_LANES) {
    Floats x;
    std::memcpy(&x, values + i, sizeof x);
    reached |= reinterpret_cast<Lanes>(x >= bar);
  }
  const auto words = reinterpret_cast<TwoWords>(reached);
  return (words[0] | words[1]) != 0;
}

// Running sums over the value bins, as float64 (exact: below 2^53). `sums` are those of both
// halves, in the layout of the slot, before they are taken apart.
struct Prefix {
  alignas(64) std::byte sums[16 * BINS_PER_FEATURE];
  alignas(64) double grad[BINS_PER_FEATURE];
  alignas(64) double hess[BINS_PER_FEATURE];

  BG_FN double grad_at(int b) const { return grad[b]; }
  BG_FN double hess_at(int b) const { return hess[b]; }
};

// Of halves of 32 bits, as long as the node's hessian is an int32_t; and estimates of gains.
struct ShortPrefix {
  alignas(64) std::byte sums[8 * BINS_PER_FEATURE];
  alignas(64) int32_t grad[BINS_PER_FEATURE];
  alignas(64) int32_t hess[BINS_PER_FEATURE];
  alignas(64) float gain[BINS_PER_FEATURE];

  BG_FN int32_t grad_at(int b) const { return grad[b]; }
  BG_FN int32_t hess_at(int b) const { return hess[b]; }
};

// Of halves of 16 bits, which are taken apart where they are used.
struct PackedPrefix {
  alignas(64) int32_t sums[BINS_PER_FEATURE];
  alignas(64) float gain[BINS_PER_FEATURE];

  BG_FN int32_t grad_at(int b) const { return static_cast<int32_t>(Packed<16>::grad(sums[b])); }
  BG_FN int32_t hess_at(int b) const { return static_cast<int32_t>(Packed<16>::hess(sums[b])); }
};

#if defined(BG_X86)
// The same for AVX-512: sixteen bins per instruction.
struct WidePrefix : PackedPrefix {};
#endif

// Room for a T that is written while `read` is read: half a page off, by their lower 12 bits. A
// load waits for an earlier store whose address agrees in these, on Intel's processors at least:
// where a feature's bins met the prefix the search took up to a third longer.
template <class T>
class HalfPageOff {
 public:
  BG_FN T& from(const void* read) {
    constexpr uintptr_t PAGE = 4096, LINE = 64;
    const auto at = reinterpret_cast<uintptr_t>(space_);
    const uintptr_t off = (reinterpret_cast<uintptr_t>(read) + PAGE / 2 - at) % PAGE / LINE * LINE;
    return *reinterpret_cast<T*>(space_ + off);
  }

 private:
  alignas(64) std::byte space_[4096 + sizeof(T)];
};

// sums[b] = bins[0] + ... + bins[b]. Short ones end where the hessian is above `most`: no cut is
// allowed any more. Returns how many there are.
template <class Layout>
BG_FN int scan(const typename Layout::Sum* bins, int n_bins, int64_t most,
               typename Layout::Sum* sums) {
  if constexpr (std::is_same_v<typename Layout::Sum, int32_t>) {
    return scan_lanes(
        bins, n_bins, [=](int b, Lanes x) { store_lanes(x, sums + b); },
        [=](int b, int32_t x) { sums[b] = x; },
        [=](int32_t x) { return static_cast<int64_t>(Layout::hess(x)) > most; });
  } else {
    typename Layout::Sum sum{};
    int b = 0;
    for (; b + 4 <= n_bins; b += 4) {  // as scan_lanes: a chain of one addition for four bins
      const auto two = Layout::add(bins[b], bins[b + 1]);
      const auto four = Layout::add(two, Layout::add(bins[b + 2], bins[b + 3]));
      sums[b] = Layout::add(sum, bins[b]);
      sums[b + 1] = Layout::add(sum, two);
      sums[b + 2] = Layout::add(sum, Layout::add(two, bins[b + 2]));
      sums[b + 3] = sum = Layout::add(sum, four);
    }
    for (; b < n_bins; ++b) sums[b] = sum = Layout::add(sum, bins[b]);
    return n_bins;
  }
}

// Halves are taken apart by a loop of its own: done on the way, with twice the stores between the
// loads of the bins, the search took half as long again on Sapphire Rapids.
template <class Layout, class Sums>
BG_FN int running_sums(const typename Layout::Sum* bins, int n_bins, int64_t most, Sums& prefix) {
  using Sum = std::remove_cvref_t<decltype(prefix.grad[0])>;
  auto* sums = reinterpret_cast<typename Layout::Sum*>(prefix.sums);
  const int n_summed = scan<Layout>(bins, n_bins, most, sums);
  for (int b = 0; b < n_summed; ++b) {
    prefix.grad[b] = static_cast<Sum>(Layout::grad(sums[b]));
    prefix.hess[b] = static_cast<Sum>(Layout::hess(sums[b]));
  }
  return n_summed;
}

// Calls visit(bins, layout) with the node's bins from `first` on. Layouts are told apart here,
// feature by feature: gains are computed by the same code for all.
template <class Visit>
BG_FN void visit_bins(const SearchedNode& node, int64_t first, Visit&& visit) {
  const auto bins_as = [&](auto layout) {
    visit(reinterpret_cast<const typename decltype(layout)::Sum*>(node.slot) + first, layout);
  };
  if (node.width == 16)
    bins_as(Packed<16>{});
  else if (node.width == 32)
    bins_as(Packed<32>{});
  else
    bins_as(Packed<64>{});
}

// The running sums of a feature's first bins. Returns how many there are: behind them no cut is
// allowed.
BG_FN int running_sums(const SearchedNode& node, int64_t first, int n_bins, Prefix& prefix) {
  int n_summed = 0;
  visit_bins(node, first, [&](const auto* bins, auto layout) {
    constexpr auto most = std::numeric_limits<int64_t>::max();
    n_summed = running_sums<decltype(layout)>(bins, n_bins, most, prefix);
  });
  return n_summed;
}
BG_FN int running_sums(const SearchedNode& node, int64_t first, int n_bins, ShortPrefix& prefix) {
  const auto* bins = reinterpret_cast<const int64_t*>(node.bins(first));
  return running_sums<Packed<32>>(bins, n_bins, node.most_hess(), prefix);
}
BG_FN int running_sums(const SearchedNode& node, int64_t first, int n_bins, PackedPrefix& prefix) {
  const auto* bins = reinterpret_cast<const int32_t*>(node.bins(first));
  return scan<Packed<16>>(bins, n_bins, node.most_hess(), prefix.sums);
}

#if defined(BG_X86)
// Sums behind the last bin of a feature are those of the last one.
BG_TARGET_AVX512 inline int running_sums(const SearchedNode& node, int64_t first, int n_bins,
                                         WidePrefix& prefix) {
  constexpr int N = 16;
  const auto* bins = reinterpret_cast<const int32_t*>(node.bins(first));
  const __m512i zero = _mm512_setzero_si512(), last_lane = _mm512_set1_epi32(N - 1);
  const int64_t most = node.most_hess();
  __m512i before = zero;
  for (int b = 0; b < n_bins; b += N) {
    if (Packed<16>::hess(_mm512_cvtsi512_si32(before)) > most) return b;
    const uint32_t there = (1u << std::min(n_bins - b, N)) - 1;
    __m512i own = _mm512_maskz_loadu_epi32(static_cast<__mmask16>(there), bins + b);
    own = _mm512_add_epi32(own, _mm512_alignr_epi32(own, zero, N - 1));
    own = _mm512_add_epi32(own, _mm512_alignr_epi32(own, zero, N - 2));
    own = _mm512_add_epi32(own, _mm512_alignr_epi32(own, zero, N - 4));
    own = _mm512_add_epi32(own, _mm512_alignr_epi32(own, zero, N - 8));
    _mm512_store_si512(prefix.sums + b, _mm512_add_epi32(own, before));
    before = _mm512_add_epi32(before, _mm512_permutexvar_epi32(last_lane, own));
  }
  return n_bins;
}
#endif

// The sums of some bins, one by one.
BG_FN void read_bins(const SearchedNode& node, int64_t first, int n_bins, LevelSums* sums) {
  visit_bins(node, first, [&](const auto* bins, auto layout) {
    using Layout = decltype(layout);
    for (int b = 0; b < n_bins; ++b)
      sums[b] = {static_cast<double>(Layout::grad(bins[b])),
                 static_cast<double>(Layout::hess(bins[b]))};
  });
}

BG_FN LevelSums read_bin(const SearchedNode& node, int64_t bin) {
  LevelSums sums;
  read_bins(node, bin, 1, &sums);
  return sums;
}

// The first bin of n that `holds`, or n; it holds of all behind that one, too. Without branches:
// where the first one is, no processor can foresee.
template <class Holds>
BG_FN int first_bin(int n, const Holds& holds) {
  int first = 0;
  for (auto step = static_cast<int>(std::bit_floor(static_cast<unsigned>(n))); step > 0;
       step /= 2) {
    const int next = first + step;
    const bool is_before = !holds(std::min(next, n) - 1);
    first = ((next <= n) & is_before) ? next : first;
  }
  return first;
}

// The cuts of a DRAWN column that a node can use, of the first n; hess(b): of the values up to b.
template <class Hess>
BG_FN CutRange usable_cuts(const Hess& hess, int n, const SearchedNode& node, double missing) {
  const UsableHess usable = usable_hess(node.hess, missing, node.min_hess);
  return {first_bin(n, [&](int b) { return hess(b) >= usable.least; }),
          first_bin(n, [&](int b) { return hess(b) > usable.most; })};
}

}  // namespace bitgrove
