// What only some compilers and processors have, behind names that all have. The rest of the core is
// standard C++ (tests/machine/test_portable.py), apart from simd.h, scan.h and code for BG_X86.
#pragma once

#include <cstdint>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

// Vector code for x86-64 is there, too. BITGROVE_SCALAR leaves it out: what other processors see.
#if defined(__x86_64__) && !defined(BITGROVE_SCALAR)
#define BG_X86 1
#include <immintrin.h>
#endif

namespace bitgrove {

// Tells the processor that a thread waits in a loop.
inline void relax_processor() {
#if defined(BG_X86)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Asks for a cache line that will be read soon.
inline void prefetch(const void* address) { __builtin_prefetch(address); }

// Gives pages of memory that was freed back to the system, where the allocator keeps them.
inline void give_back_heap() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

// A place that several threads change: std::atomic_ref, which Apple's library does not have yet.
// Relaxed: who reads it waits for the end of the region first.
template <class T>
class AtomicRef {
 public:
  explicit AtomicRef(T& place) : place_(&place) {}
  T load() const { return __atomic_load_n(place_, __ATOMIC_RELAXED); }
  void store(T value) const { __atomic_store_n(place_, value, __ATOMIC_RELAXED); }
  void add(T value) const { __atomic_fetch_add(place_, value, __ATOMIC_RELAXED); }
  bool exchange(T& old, T value) const {
    return __atomic_compare_exchange_n(place_, &old, value, true, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
  }

 private:
  T* place_;
};

// Two and four words that the compiler works on as one.
using TwoWords __attribute__((vector_size(16))) = uint64_t;
using FourWords __attribute__((vector_size(32))) = uint64_t;
// Sixteen of 32 bits: where code is for AVX-512 alone.
using SixteenWords __attribute__((vector_size(64))) = uint32_t;

}  // namespace bitgrove
