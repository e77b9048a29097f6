// The bins of a feature as they are read from a slot, of any layout: one by one, and running sums,
// 64 bytes of integers at a time in the compiler's vector types.
#pragma once

#include <cstring>
#include <type_traits>

#include "layouts.h"
#include "levels.h"
#include "tree/searched_node.h"

namespace bitgrove {

template <class Int>
constexpr int lanes_of = 64 / sizeof(Int);

#if defined(__clang__)

// out[i] = before + in[0] + ... + in[i] for one vector of lanes; returns the last.
template <class Int>
BG_FN Int scan_lanes(const Int* in, Int before, Int* out) {
  auto sum = static_cast<std::make_unsigned_t<Int>>(before);
  for (int i = 0; i < lanes_of<Int>; ++i) out[i] = static_cast<Int>(sum += in[i]);
  return static_cast<Int>(sum);
}

#else  // vectors with shuffles of GCC

// Unsigned: lanes behind the last bin hold anything, and their sums, which nobody reads, may wrap.
template <class Int>
using Lanes __attribute__((vector_size(64))) = std::make_unsigned_t<Int>;

// x[i] += x[i - Shift], then the same with twice the shift: each lane gets the sum up to itself.
template <class Int, int Shift = 1>
BG_FN void add_lower_lanes(Lanes<Int>& x) {
  if constexpr (Shift < lanes_of<Int>) {
    Lanes<Int> from{};  // lane 0 to Shift - 1 of zeros, then the lanes of x
    for (int i = 0; i < lanes_of<Int>; ++i) from[i] = i < Shift ? i : lanes_of<Int> + i - Shift;
    x += __builtin_shuffle(Lanes<Int>{}, x, from);
    add_lower_lanes<Int, 2 * Shift>(x);
  }
}

// out[i] = before + in[0] + ... + in[i] for one vector of lanes; returns the last.
template <class Int>
BG_FN Int scan_lanes(const Int* in, Int before, Int* out) {
  Lanes<Int> x;
  std::memcpy(&x, in, sizeof x);
  add_lower_lanes<Int>(x);
  x += static_cast<std::make_unsigned_t<Int>>(before);
  std::memcpy(out, &x, sizeof x);
  return static_cast<Int>(x[lanes_of<Int> - 1]);
}

#endif

// Running sums over the value bins, as float64 (exact: below 2^53).
struct Prefix {
  alignas(64) double grad[BINS_PER_FEATURE];
  alignas(64) double hess[BINS_PER_FEATURE];
};

// Running sums of packed halves: 32-bit integers, as long as the node's hessian is one.
struct ShortPrefix {
  alignas(64) int32_t grad[BINS_PER_FEATURE];
  alignas(64) int32_t hess[BINS_PER_FEATURE];
};

// sums[b] = bins[0] + ... + bins[b]
template <class Layout>
BG_FN void scan(const typename Layout::Sum* bins, int n_bins, typename Layout::Sum* sums) {
  typename Layout::Sum sum{};
  int b = 0;
  if constexpr (std::is_integral_v<typename Layout::Sum>)
    for (; b + lanes_of<typename Layout::Sum> <= n_bins; b += lanes_of<typename Layout::Sum>)
      sum = scan_lanes(bins + b, sum, sums + b);
  for (; b < n_bins; ++b) sums[b] = sum = Layout::add(sum, bins[b]);
}

template <class Layout, class Sums>
BG_FN void running_sums(const typename Layout::Sum* bins, int n_bins, Sums& prefix) {
  using Sum = std::remove_cvref_t<decltype(prefix.grad[0])>;
  alignas(64) typename Layout::Sum sums[BINS_PER_FEATURE];
  scan<Layout>(bins, n_bins, sums);
  for (int b = 0; b < n_bins; ++b) {
    prefix.grad[b] = static_cast<Sum>(Layout::grad(sums[b]));
    prefix.hess[b] = static_cast<Sum>(Layout::hess(sums[b]));
  }
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

// The running sums of a feature's first bins; of short ones those of 64 bits are never asked for.
template <class Sums>
BG_FN void running_sums(const SearchedNode& node, int64_t first, int n_bins, Sums& prefix) {
  visit_bins(node, first, [&](const auto* bins, auto layout) {
    using Layout = decltype(layout);
    if constexpr (Layout::half_bits <= 32 || std::is_same_v<Sums, Prefix>)
      running_sums<Layout>(bins, n_bins, prefix);
  });
}

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

}  // namespace bitgrove
