// Preloaded into Python: the k-th `operator new` that the core calls fails, once.
// The core's calls are those whose code lies in it or, for strings and threads, in libstdc++.
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

struct Range {
  uintptr_t begin, end;
};
Range watched[8];
int n_watched = 0;
std::atomic<long> n_seen{0}, failing{0};

int watch_library(dl_phdr_info* info, size_t, void*) {
  if (!std::strstr(info->dlpi_name, "bitgrove/_core") && !std::strstr(info->dlpi_name, "libstdc++"))
    return 0;
  for (int i = 0; i < info->dlpi_phnum && n_watched < 8; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    watched[n_watched++] = {begin, begin + part.p_memsz};
  }
  return 0;
}

bool fails(void* caller) {
  const auto at = reinterpret_cast<uintptr_t>(caller);
  for (int i = 0; i < n_watched; ++i)
    if (at >= watched[i].begin && at < watched[i].end) return ++n_seen == failing;
  return false;
}

void* allocated(size_t size, size_t alignment, void* caller) noexcept {
  if (failing > 0 && fails(caller)) return nullptr;
  if (size == 0) size = 1;
  if (alignment == 0) return std::malloc(size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* or_throw(void* found) {
  if (!found) throw std::bad_alloc();
  return found;
}

}  // namespace

// From now on the k-th call fails; 0: none. Returns how many calls there were since the last time.
extern "C" long fail_allocation(long k) {
  n_watched = 0;
  dl_iterate_phdr(watch_library, nullptr);
  failing = k;
  return n_seen.exchange(0);
}

#define CALLER __builtin_return_address(0)
using std::align_val_t;
using std::nothrow_t;

void* operator new(size_t n) { return or_throw(allocated(n, 0, CALLER)); }
void* operator new[](size_t n) { return or_throw(allocated(n, 0, CALLER)); }
void* operator new(size_t n, const nothrow_t&) noexcept { return allocated(n, 0, CALLER); }
void* operator new[](size_t n, const nothrow_t&) noexcept { return allocated(n, 0, CALLER); }
void* operator new(size_t n, align_val_t a) {
  return or_throw(allocated(n, static_cast<size_t>(a), CALLER));
}
void* operator new[](size_t n, align_val_t a) {
  return or_throw(allocated(n, static_cast<size_t>(a), CALLER));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t, align_val_t) noexcept { std::free(p); }
