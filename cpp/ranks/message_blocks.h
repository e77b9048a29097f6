// A block of at most 64 bins of a message: as few bits per bin as its sums need.
//
//   bits of a gradient, bits of a hessian (+ SPARSE), [uint64: which bins are not empty],
//   hessian and gradient (in two's complement) of each bin, or of each that is not empty; where
//   both together are wider than 64 bits, all gradients after all hessians
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "layouts.h"
#include "ranks/bit_stream.h"

namespace bitgrove {

constexpr int BLOCK_BINS = 64;
constexpr int SPARSE = 0x80;
constexpr int64_t HEADER_BYTES = 2, BITMAP_BYTES = 8;

// How the bins of one block are written.
struct Block {
  int n_bins = 0, grad_bits = 0, hess_bits = 0;
  bool sparse = false;
  uint64_t filled = 0;  // sparse: the bins that are written

  int bits_per_bin() const { return grad_bits + hess_bits; }
  int n_written() const { return sparse ? std::popcount(filled) : n_bins; }
  int64_t payload_start() const { return HEADER_BYTES + (sparse ? BITMAP_BYTES : 0); }
  int64_t n_bytes() const {
    return payload_start() + stream_bytes(static_cast<int64_t>(n_written()) * bits_per_bin());
  }
};

// visit(bin, position among the written ones)
template <class Visit>
BG_FN void each_written_bin(const Block& block, Visit&& visit) {
  int at = 0;
  if (block.sparse)
    for (uint64_t left = block.filled; left; left &= left - 1) visit(std::countr_zero(left), at++);
  else
    for (int bin = 0; bin < block.n_bins; ++bin) visit(bin, bin);
}

template <class Sum>
BG_FN bool is_empty(Sum sum) {
  if constexpr (std::is_integral_v<Sum>)
    return sum == 0;
  else
    return (sum.grad | sum.hess) == 0;
}

template <class Sum>
BG_FN uint64_t filled_bins(const Sum* sums, int n_bins) {
  uint8_t flags[BLOCK_BINS] = {};
  for (int i = 0; i < n_bins; ++i) flags[i] = !is_empty(sums[i]);
  uint64_t filled = 0;
  for (int i = 0; i < BLOCK_BINS; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, flags + i, 8);
    filled |= ((eight * 0x0102040810204080u) >> 56)
              << i;  // the lowest bits of eight bytes, side by side
  }
  return filled;
}

template <class Layout>
BG_FN Block shape_of(const typename Layout::Sum* sums, int n_bins) {
  using Sum = typename Layout::Sum;
  // Of each half the bits in which some sum differs from its sign; together they are a sum, too.
  Sum used{};
  int n_filled = 0;
  for (int i = 0; i < n_bins; ++i) {
    const Sum sum = sums[i];
    if constexpr (std::is_integral_v<Sum>) {
      constexpr int HALF = Layout::half_bits;
      const Sum sign =
          static_cast<Sum>((sum >> (2 * HALF - 1)) << (HALF - 1) << 1);  // in the upper half only
      used |= sum ^ sign;
    } else {
      used.grad |= sum.grad ^ (sum.grad >> (Layout::half_bits - 1));
      used.hess |= sum.hess;
    }
    n_filled += !is_empty(sum);
  }
  if (n_filled == 0) return {n_bins};
  const auto grads = static_cast<uint64_t>(Layout::grad(used)),
             hessians = static_cast<uint64_t>(Layout::hess(used));
  Block block{n_bins, static_cast<int>(std::bit_width(grads)) + 1,
              static_cast<int>(std::bit_width(hessians))};
  block.sparse = 8 * BITMAP_BYTES < (n_bins - n_filled) * block.bits_per_bin();
  if (block.sparse) block.filled = filled_bins(sums, n_bins);
  return block;
}

template <class Layout>
BG_FN void write_block(const Block& block, const typename Layout::Sum* sums, uint8_t* to) {
  to[0] = static_cast<uint8_t>(block.grad_bits);
  to[1] = static_cast<uint8_t>(block.hess_bits | (block.sparse ? SPARSE : 0));
  if (block.sparse) std::memcpy(to + HEADER_BYTES, &block.filled, BITMAP_BYTES);
  if (block.grad_bits == 0) return;
  const int grad_bits = block.grad_bits, hess_bits = block.hess_bits, n = block.n_written();
  const uint64_t mask = low_bits(grad_bits);
  const auto grad = [&](int bin) { return static_cast<uint64_t>(Layout::grad(sums[bin])) & mask; };
  const auto hess = [&](int bin) { return static_cast<uint64_t>(Layout::hess(sums[bin])); };
  uint64_t values[BLOCK_BINS];
  BitWriter out(to + block.payload_start());
  if (grad_bits + hess_bits <= 64) {
    each_written_bin(block,
                     [&](int bin, int at) { values[at] = grad(bin) << hess_bits | hess(bin); });
    out.put_all(values, n, grad_bits + hess_bits);
  } else {
    each_written_bin(block, [&](int bin, int at) { values[at] = hess(bin); });
    out.put_all(values, n, hess_bits);
    each_written_bin(block, [&](int bin, int at) { values[at] = grad(bin); });
    out.put_all(values, n, grad_bits);
  }
}

BG_FN int64_t with_sign(uint64_t value, int n_bits) {
  return static_cast<int64_t>(value << (64 - n_bits)) >> (64 - n_bits);
}

template <class Layout>
BG_FN void add_block(const Block& block, const uint8_t* from, typename Layout::Sum* sums) {
  const int grad_bits = block.grad_bits, hess_bits = block.hess_bits, n = block.n_written();
  if (grad_bits == 0) return;
  const uint64_t mask = low_bits(hess_bits);
  uint64_t values[BLOCK_BINS], grads[BLOCK_BINS];
  BitReader in(from + block.payload_start());
  if (grad_bits + hess_bits <= 64) {
    in.get_all(values, n, grad_bits + hess_bits);
    each_written_bin(block, [&](int bin, int at) {
      const int64_t grad = with_sign(values[at] >> hess_bits, grad_bits);
      sums[bin] =
          Layout::add(sums[bin], Layout::pack(grad, static_cast<int64_t>(values[at] & mask)));
    });
  } else {
    in.get_all(values, n, hess_bits);
    in.get_all(grads, n, grad_bits);
    each_written_bin(block, [&](int bin, int at) {
      const int64_t grad = with_sign(grads[at], grad_bits);
      sums[bin] = Layout::add(sums[bin], Layout::pack(grad, static_cast<int64_t>(values[at])));
    });
  }
}

// Whether a block that a slot of these halves can take starts at `from` and is all before `end`.
inline bool read_header(const uint8_t* from, const uint8_t* end, int half_bits, Block& block) {
  if (end - from < HEADER_BYTES) return false;
  block.grad_bits = from[0];
  block.hess_bits = from[1] & ~SPARSE;
  block.sparse = from[1] & SPARSE;
  if (block.grad_bits > half_bits || block.hess_bits > half_bits) return false;
  if (block.grad_bits == 0 && from[1] != 0) return false;
  if (block.sparse) {
    if (end - from < HEADER_BYTES + BITMAP_BYTES) return false;
    std::memcpy(&block.filled, from + HEADER_BYTES, BITMAP_BYTES);
    if (block.filled & ~low_bits(block.n_bins)) return false;
  }
  return block.n_bytes() <= end - from;
}

}  // namespace bitgrove
