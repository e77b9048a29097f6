// Integers of few bits, one after another, the lowest bit first.
#pragma once

#include <cstdint>
#include <cstring>

#include "layouts.h"

namespace bitgrove {

// What a reader may touch behind the last byte of a stream.
constexpr int64_t STREAM_PADDING = 8;
// Integers that are put into one word first, where they fit.
constexpr int GROUP = 4, MOST_GROUPED_BITS = 64 / GROUP;

BG_FN uint64_t low_bits(int n) { return n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }

inline int64_t stream_bytes(int64_t n_bits) { return (n_bits + 7) / 8; }

class BitWriter {
 public:
  explicit BitWriter(uint8_t* to) : to_(to) {}
  BitWriter(const BitWriter&) = delete;
  ~BitWriter() { std::memcpy(to_, &word_, stream_bytes(n_held_)); }

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

  // Not inlined: it is the same for every layout and instruction set.
  BG_NOINLINE void put_all(const uint64_t* values, int n, int n_bits) {
    int i = 0;
    if (n_bits <= MOST_GROUPED_BITS)
      for (; i + GROUP <= n; i += GROUP) {
        const uint64_t low = values[i] | values[i + 1] << n_bits;
        const uint64_t high = values[i + 2] | values[i + 3] << n_bits;
        put(low | high << (2 * n_bits), GROUP * n_bits);
      }
    for (; i < n; ++i) put(values[i], n_bits);
  }

 private:
  uint8_t* to_;
  uint64_t word_ = 0;
  int n_held_ = 0;
};

// Needs STREAM_PADDING behind the stream.
class BitReader {
 public:
  explicit BitReader(const uint8_t* from) : from_(from) {}

  // 1 <= n_bits <= 64
  BG_FN uint64_t get(int n_bits) {
    uint64_t word;
    std::memcpy(&word, from_ + bit_ / 8, 8);
    const int shift = bit_ % 8;
    word >>= shift;
    if (shift + n_bits > 64) word |= static_cast<uint64_t>(from_[bit_ / 8 + 8]) << (64 - shift);
    bit_ += n_bits;
    return word & low_bits(n_bits);
  }

  BG_FN void get_all(uint64_t* values, int n, int n_bits) {
    int i = 0;
    const uint64_t mask = low_bits(n_bits);
    if (n_bits <= MOST_GROUPED_BITS)
      for (; i + GROUP <= n; i += GROUP) {
        const uint64_t group = get(GROUP * n_bits);
        for (int j = 0; j < GROUP; ++j) values[i + j] = (group >> (j * n_bits)) & mask;
      }
    for (; i < n; ++i) values[i] = get(n_bits);
  }

 private:
  const uint8_t* from_;
  int64_t bit_ = 0;
};

}  // namespace bitgrove
