// Integers of few bits, one after another, the lowest bit first.
#pragma once

#include <cstdint>
#include <cstring>

#include "layouts.h"

namespace bitgrove {

// What a reader may touch behind the last byte of a stream.
constexpr int64_t STREAM_PADDING = 8;

BG_FN uint64_t low_bits(int n) { return n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }

inline int64_t stream_bytes(int64_t n_bits) { return (n_bits + 7) / 8; }

class BitWriter {
 public:
  explicit BitWriter(uint8_t* to) : to_(to) {}

  // 1 <= n_bits <= 64; value has no bits above them.
  BG_FN void put(uint64_t value, int n_bits) {
    word_ |= value << n_held_;
    n_held_ += n_bits;
    if (n_held_ < 64) return;
    std::memcpy(to_, &word_, 8);
    to_ += 8;
    n_held_ -= 64;
    word_ = (value >> (n_bits - n_held_ - 1)) >> 1;  // two shifts: together they may be 64
  }

  void finish() { std::memcpy(to_, &word_, stream_bytes(n_held_)); }

 private:
  uint8_t* to_;
  uint64_t word_ = 0;
  int n_held_ = 0;
};

// 1 <= n_bits <= 64; needs STREAM_PADDING.
BG_FN uint64_t read_bits(const uint8_t* from, int64_t bit, int n_bits) {
  uint64_t word;
  std::memcpy(&word, from + bit / 8, 8);
  const int shift = bit % 8;
  word >>= shift;
  if (n_bits > 57 && shift + n_bits > 64) word |= static_cast<uint64_t>(from[bit / 8 + 8]) << (64 - shift);
  return word & low_bits(n_bits);
}

}  // namespace bitgrove
