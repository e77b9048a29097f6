// A block of at most 64 bins of a message: as few bits per bin as its sums need.
//
//   bits of a gradient, bits of a hessian (+ SPARSE), [uint64: which bins are not empty],
//   gradient (in two's complement) and hessian of each bin, or of each that is not empty
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "bit_stream.h"
#include "layouts.h"

namespace bitgrove {

constexpr int BLOCK_BINS = 64;
constexpr int SPARSE = 0x80;
constexpr int64_t HEADER_BYTES = 2, BITMAP_BYTES = 8;

// How the bins of one block are written.
struct Block {
  int n_bins, grad_bits = 0, hess_bits = 0;
  bool sparse = false;
  uint64_t filled = 0;  // sparse: the bins that are written

  int bits_per_bin() const { return grad_bits + hess_bits; }
  int64_t payload_bytes() const {
    return stream_bytes(static_cast<int64_t>(sparse ? std::popcount(filled) : n_bins) * bits_per_bin());
  }
  int64_t payload_start() const { return HEADER_BYTES + (sparse ? BITMAP_BYTES : 0); }
  int64_t n_bytes() const { return payload_start() + payload_bytes(); }
};

template <class Visit>
BG_FN void each_written_bin(const Block& block, Visit&& visit) {
  if (block.sparse)
    for (uint64_t left = block.filled; left; left &= left - 1) visit(std::countr_zero(left));
  else
    for (int bin = 0; bin < block.n_bins; ++bin) visit(bin);
}

template <class Layout>
BG_FN Block shape_of(const typename Layout::Sum* sums, int n_bins) {
  uint64_t grads = 0, hessians = 0;
  int n_filled = 0;
  for (int i = 0; i < n_bins; ++i) {
    const int64_t grad = Layout::grad(sums[i]), hess = Layout::hess(sums[i]);
    grads |= static_cast<uint64_t>(grad ^ (grad >> 63));  // of a negative one the bits that differ from its sign
    hessians |= static_cast<uint64_t>(hess);
    n_filled += (grad | hess) != 0;
  }
  if (n_filled == 0) return {n_bins};
  const int grad_bits = static_cast<int>(std::bit_width(grads)) + 1;  // and one for the sign
  Block block{n_bins, grad_bits, static_cast<int>(std::bit_width(hessians))};
  block.sparse = 8 * BITMAP_BYTES < (n_bins - n_filled) * block.bits_per_bin();
  if (block.sparse)
    for (int i = 0; i < n_bins; ++i)
      block.filled |= static_cast<uint64_t>((Layout::grad(sums[i]) | Layout::hess(sums[i])) != 0) << i;
  return block;
}

template <class Layout>
BG_FN void write_block(const Block& block, const typename Layout::Sum* sums, uint8_t* to) {
  to[0] = static_cast<uint8_t>(block.grad_bits);
  to[1] = static_cast<uint8_t>(block.hess_bits | (block.sparse ? SPARSE : 0));
  if (block.sparse) std::memcpy(to + HEADER_BYTES, &block.filled, BITMAP_BYTES);
  if (block.grad_bits == 0) return;
  const int grad_bits = block.grad_bits, hess_bits = block.hess_bits;
  const uint64_t mask = low_bits(grad_bits);
  BitWriter out(to + block.payload_start());
  if (grad_bits + hess_bits <= 64)
    each_written_bin(block, [&](int i) {
      const auto grad = static_cast<uint64_t>(Layout::grad(sums[i])) & mask;
      const auto hess = static_cast<uint64_t>(Layout::hess(sums[i]));
      out.put(grad | (hess_bits == 0 ? 0 : hess << grad_bits), grad_bits + hess_bits);
    });
  else
    each_written_bin(block, [&](int i) {
      out.put(static_cast<uint64_t>(Layout::grad(sums[i])) & mask, grad_bits);
      out.put(static_cast<uint64_t>(Layout::hess(sums[i])), hess_bits);
    });
  out.finish();
}

BG_FN int64_t signed_bits(uint64_t value, int n_bits) {
  return static_cast<int64_t>(value << (64 - n_bits)) >> (64 - n_bits);
}

template <class Layout>
BG_FN void add_block(const Block& block, const uint8_t* from, typename Layout::Sum* sums) {
  const int grad_bits = block.grad_bits, hess_bits = block.hess_bits, n_bits = block.bits_per_bin();
  int64_t bit = 0;
  if (n_bits == 0) return;
  from += block.payload_start();
  if (n_bits <= 64)
    each_written_bin(block, [&](int i) {
      const uint64_t value = read_bits(from, bit, n_bits);
      bit += n_bits;
      const uint64_t hess = hess_bits == 0 ? 0 : value >> grad_bits;
      sums[i] = Layout::add(sums[i], Layout::pack(signed_bits(value, grad_bits), static_cast<int64_t>(hess)));
    });
  else
    each_written_bin(block, [&](int i) {
      const uint64_t grad = read_bits(from, bit, grad_bits);
      const uint64_t hess = read_bits(from, bit + grad_bits, hess_bits);
      bit += n_bits;
      sums[i] = Layout::add(sums[i], Layout::pack(signed_bits(grad, grad_bits), static_cast<int64_t>(hess)));
    });
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
