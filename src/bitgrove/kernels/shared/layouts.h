// Integer layouts shared by the CPU core and the CUDA kernels.
//
// A gradient and a hessian travel in one integer: the gradient in the upper, signed half, the
// hessian in the lower, unsigned half. One addition adds both; unpacking is exact as long as
// neither half left its range, which the width planner (histograms.py) proves beforehand.
#pragma once

#if defined(__CUDACC_RTC__)
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define BG_FN __device__ __forceinline__
#else
#include <cstdint>
#define BG_FN inline __attribute__((always_inline))
#define BG_NOINLINE __attribute__((noinline))
#define BG_RESTRICT __restrict
#endif

namespace bitgrove {

// Bins of one feature in a block-local histogram: a bin is one byte.
constexpr int BINS_PER_FEATURE = 256;
// Features per tile: a tile's 16+16-bit histogram is 32 KiB and stays in L1 / shared memory.
constexpr int TILE_FEATURES = 32;

// The packed integer of half-width H bits. `Sum` is what is stored, one per bin (or row).
template <int HalfBits>
struct Packed;

template <class Int, class Unsigned, int HalfBits>
struct PackedAs {
  using Sum = Int;
  static constexpr int half_bits = HalfBits;
  static BG_FN Int pack(int64_t grad, int64_t hess) {
    // Shift as unsigned: a negative gradient is shifted in two's complement.
    return static_cast<Int>((static_cast<Unsigned>(grad) << HalfBits) +
                            static_cast<Unsigned>(hess));
  }
  static BG_FN int64_t grad(Int sum) { return sum >> HalfBits; }
  static BG_FN int64_t hess(Int sum) {
    return static_cast<Unsigned>(sum) & ((static_cast<Unsigned>(1) << HalfBits) - 1);
  }
  static BG_FN Int add(Int a, Int b) {
    return static_cast<Int>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  }
  static BG_FN Int subtract(Int a, Int b) {
    return static_cast<Int>(static_cast<Unsigned>(a) - static_cast<Unsigned>(b));
  }
};

template <>
struct Packed<8> : PackedAs<int16_t, uint16_t, 8> {};
template <>
struct Packed<16> : PackedAs<int32_t, uint32_t, 16> {};
template <>
struct Packed<32> : PackedAs<int64_t, uint64_t, 32> {};

// Two separate integers: 64+64 bits for full precision, and the paper's unpacked ablation.
template <class Int>
struct PairSum {
  Int grad;
  Int hess;
};

// Unsigned arithmetic wraps, also where a hessian sum passes the middle of its range.
template <class Int>
struct UnsignedOf;
template <>
struct UnsignedOf<int8_t> {
  using type = uint8_t;
};
template <>
struct UnsignedOf<int16_t> {
  using type = uint16_t;
};
template <>
struct UnsignedOf<int32_t> {
  using type = uint32_t;
};
template <>
struct UnsignedOf<int64_t> {
  using type = uint64_t;
};

template <class Int, int HalfBits>
struct PairAs {
  using Sum = PairSum<Int>;
  using Unsigned = typename UnsignedOf<Int>::type;
  static constexpr int half_bits = HalfBits;
  static BG_FN Sum pack(int64_t grad, int64_t hess) {
    return {static_cast<Int>(grad), static_cast<Int>(hess)};
  }
  static BG_FN int64_t grad(Sum sum) { return sum.grad; }
  static BG_FN int64_t hess(Sum sum) {
    return static_cast<int64_t>(static_cast<Unsigned>(sum.hess));
  }
  static BG_FN Int wrapped_sum(Int a, Int b) {
    return static_cast<Int>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  }
  static BG_FN Int wrapped_difference(Int a, Int b) {
    return static_cast<Int>(static_cast<Unsigned>(a) - static_cast<Unsigned>(b));
  }
  static BG_FN Sum add(Sum a, Sum b) {
    return {wrapped_sum(a.grad, b.grad), wrapped_sum(a.hess, b.hess)};
  }
  static BG_FN Sum subtract(Sum a, Sum b) {
    return {wrapped_difference(a.grad, b.grad), wrapped_difference(a.hess, b.hess)};
  }
};

template <>
struct Packed<64> : PairAs<int64_t, 64> {};

template <int HalfBits>
struct Unpacked;
template <>
struct Unpacked<8> : PairAs<int8_t, 8> {};
template <>
struct Unpacked<16> : PairAs<int16_t, 16> {};
template <>
struct Unpacked<32> : PairAs<int32_t, 32> {};
template <>
struct Unpacked<64> : PairAs<int64_t, 64> {};

// The same sum in another layout.
template <class To, class From>
BG_FN typename To::Sum convert(typename From::Sum sum) {
  return To::pack(From::grad(sum), From::hess(sum));
}

}  // namespace bitgrove
