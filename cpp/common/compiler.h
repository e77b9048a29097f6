// What only some compilers and processors have, behind names that all have. The rest of the core
// is standard C++, apart from the vector code that is guarded by its instruction set.
#pragma once

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

namespace bitgrove {

// Tells the processor that a thread waits in a loop.
inline void relax_processor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#elif defined(_MSC_VER) && defined(_M_X64)
  _mm_pause();
#endif
}

// Asks for a cache line that will be read soon.
inline void prefetch(const void* address) {
#if defined(__GNUC__)
  __builtin_prefetch(address);
#else
  (void)address;
#endif
}

}  // namespace bitgrove
