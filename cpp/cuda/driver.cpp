// See driver.h.
#include "cuda/driver.h"

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#include <stdexcept>
#include <string>

namespace bitgrove {
namespace {

constexpr int NOT_READY = 600;

// Types as in cuda.h: CUresult is an int, handles are pointers, a CUdeviceptr is 64 bits.
struct Driver {
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                void**, void**);
  int (*upload)(uint64_t, const void*, size_t, void*);
  int (*download)(void*, uint64_t, size_t, void*);
  int (*fill)(uint64_t, unsigned char, size_t, void*);
  int (*synchronize)(void*);
  int (*query)(void*);
  int (*error_name)(int, const char**);
};

#if defined(_WIN32)
void* open_driver() { return LoadLibraryA("nvcuda.dll"); }
void* symbol(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}
std::string why_not() { return "Windows error " + std::to_string(GetLastError()); }
#else
void* open_driver() { return dlopen("libcuda.so.1", RTLD_NOW); }
void* symbol(void* library, const char* name) { return dlsym(library, name); }
std::string why_not() { return dlerror(); }
#endif

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(symbol(library, name));
  if (!function)
    throw std::runtime_error(std::string("the NVIDIA driver has no ") + name + "; update it");
}

Driver load_driver() {
  void* library = open_driver();
  if (!library) throw std::runtime_error("the NVIDIA driver does not load: " + why_not());
  Driver driver;
  find(library, "cuLaunchKernel", driver.launch);
  find(library, "cuMemcpyHtoDAsync_v2", driver.upload);
  find(library, "cuMemcpyDtoHAsync_v2", driver.download);
  find(library, "cuMemsetD8Async", driver.fill);
  find(library, "cuStreamSynchronize", driver.synchronize);
  find(library, "cuStreamQuery", driver.query);
  find(library, "cuGetErrorName", driver.error_name);
  return driver;
}

const Driver& driver() {
  static const Driver loaded = load_driver();
  return loaded;
}

void check(int status, const char* what) {
  if (status == 0) return;
  const char* name = nullptr;
  driver().error_name(status, &name);
  throw std::runtime_error(std::string(what) +
                           " failed on the GPU: " + (name ? name : std::to_string(status)));
}

void* pointer(uint64_t handle) { return reinterpret_cast<void*>(handle); }

}  // namespace

void Stream::launch_raw(const Kernel& kernel, Grid grid, void** arguments) const {
  if (grid.x == 0 || grid.y == 0)
    return;  // an empty shard: the driver refuses a launch without blocks
  const auto x = static_cast<unsigned>(grid.x), y = static_cast<unsigned>(grid.y);
  check(driver().launch(pointer(kernel.handle), x, y, 1, kernel.threads, 1, 1, kernel.shared_bytes,
                        pointer(handle_), arguments, nullptr),
        "a kernel");
}

void Stream::upload(DeviceAddress to, const void* from, size_t n_bytes) const {
  check(driver().upload(to, from, n_bytes, pointer(handle_)), "a copy to the device");
}

void Stream::download(void* to, DeviceAddress from, size_t n_bytes) const {
  check(driver().download(to, from, n_bytes, pointer(handle_)), "a copy to the host");
}

void Stream::fill(DeviceAddress to, uint8_t byte, size_t n_bytes) const {
  check(driver().fill(to, byte, n_bytes, pointer(handle_)), "writing to the device");
}

void Stream::wait() const { check(driver().synchronize(pointer(handle_)), "training"); }

bool Stream::is_busy() const {
  const int status = driver().query(pointer(handle_));
  if (status != NOT_READY) check(status, "training");
  return status == NOT_READY;
}

}  // namespace bitgrove
