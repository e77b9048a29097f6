// Run-time choice of instruction set. The bodies are the same code compiled three times;
// since floats are never contracted or reassociated, the results are the same bits.
#pragma once

#include "common/compiler.h"

namespace bitgrove {

enum class Simd : int { scalar = 0, avx2 = 1, avx512 = 2 };

// The best level this processor has.
inline Simd best_simd() {
#if defined(BG_X86)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return Simd::avx512;
  if (__builtin_cpu_supports("avx2")) return Simd::avx2;
#endif
  return Simd::scalar;
}

#if defined(BG_X86)
#define BG_TARGET_AVX2 __attribute__((target("avx2")))
#if defined(__clang__)
#define BG_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#else
#define BG_TARGET_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")))
#endif

// Cold: for size. Processors without AVX2 are older than 2013; wheels are downloaded by all others.
template <class Body>
__attribute__((cold, flatten, noinline)) void run_plain(Body&& body) {
  body();
}
template <class Body>
BG_TARGET_AVX2 __attribute__((flatten, noinline)) void run_avx2(Body&& body) {
  body();
}
template <class Body>
BG_TARGET_AVX512 __attribute__((flatten, noinline)) void run_avx512(Body&& body) {
  body();
}
#endif

// Whether loops run by vectors: everywhere but on an x86-64 without AVX2.
inline bool has_vectors(Simd level) {
#if defined(BG_X86)
  return level >= Simd::avx2;
#else
  return level == Simd::scalar;
#endif
}

// Runs a loop nest compiled for the given level; everything it calls is inlined into it. `widest`:
// where AVX-512 would bring little, its copy of the code stays out of the wheel; `narrowest`: what
// the level is at least, where there are vectors.
template <Simd widest = Simd::avx512, Simd narrowest = Simd::scalar, class Body>
void with_simd(Simd level, Body&& body) {
#if defined(BG_X86)
  if constexpr (widest == Simd::avx512)
    if (level == Simd::avx512) return run_avx512(body);
  if (narrowest == Simd::avx2 || level >= Simd::avx2) return run_avx2(body);
  if constexpr (narrowest == Simd::scalar) run_plain(body);
#else
  (void)level;
  body();
#endif
}

}  // namespace bitgrove
