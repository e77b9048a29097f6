// Sums of products of 64-bit whole numbers, in 128 bits: standard C++ has no such integer.
#pragma once

#include <cstdint>

namespace bitgrove {

struct Whole128 {
  uint64_t low = 0, high = 0;

  Whole128& operator+=(const Whole128& other) {
    low += other.low;
    high += other.high + (low < other.low ? 1 : 0);
    return *this;
  }

  uint32_t digit(int i) const {  // of 32 bits, the lowest first
    return static_cast<uint32_t>((i < 2 ? low : high) >> (i % 2 * 32));
  }
};

inline Whole128 product(uint64_t a, uint64_t b) {
  constexpr uint64_t HALF = 0xFFFFFFFFu;
  const uint64_t a0 = a & HALF, a1 = a >> 32, b0 = b & HALF, b1 = b >> 32;
  const uint64_t middle = a1 * b0 + ((a0 * b0) >> 32);  // cannot overflow, nor can the next
  const uint64_t middle_low = (middle & HALF) + a0 * b1;
  return {a * b, a1 * b1 + (middle >> 32) + (middle_low >> 32)};
}

}  // namespace bitgrove
