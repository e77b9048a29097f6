// See driver.h.
#include "cuda/driver.h"

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#include <stdexcept>
#include <string>
#include <utility>

#include "cuda/graph.h"

namespace bitgrove {
namespace {

constexpr int NOT_READY = 600;

// CUDA_KERNEL_NODE_PARAMS_v2
struct KernelNode {
  void* function;
  unsigned grid[3], block[3], shared_bytes;
  void **arguments, **extra;
  void *kernel, *context;
};

// CUgraphEdgeData: the later kernel may be launched while the earlier one runs.
struct Edge {
  unsigned char from_port = 1, to_port = 0, type = 1, reserved[5] = {};
};

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
  int (*new_graph)(void**, unsigned);
  int (*add_kernel)(void**, void*, void* const*, size_t, const KernelNode*);
  int (*add_edge)(void*, void* const*, void* const*, const Edge*, size_t);
  int (*instantiate)(void**, void*, unsigned long long);
  int (*set_kernel)(void*, void*, const KernelNode*);
  int (*run)(void*, void*);
  int (*drop_instance)(void*);
  int (*drop_graph)(void*);
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

// All or none: drivers before that of CUDA 12.3 lack some.
void find_graphs(void* library, Driver& driver) {
  driver.drop_graph = nullptr;
  if (!symbol(library, "cuGraphAddDependencies_v2")) return;
  find(library, "cuGraphCreate", driver.new_graph);
  find(library, "cuGraphAddKernelNode_v2", driver.add_kernel);
  find(library, "cuGraphAddDependencies_v2", driver.add_edge);
  find(library, "cuGraphInstantiateWithFlags", driver.instantiate);
  find(library, "cuGraphExecKernelNodeSetParams_v2", driver.set_kernel);
  find(library, "cuGraphLaunch", driver.run);
  find(library, "cuGraphExecDestroy", driver.drop_instance);
  find(library, "cuGraphDestroy", driver.drop_graph);
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
  find_graphs(library, driver);
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

KernelNode node_of(const Launch& launch, std::array<void*, Launch::MOST_ARGUMENTS>& addresses) {
  addresses = launch.addresses();
  const Kernel& kernel = launch.kernel;
  return {pointer(kernel.handle),
          {static_cast<unsigned>(launch.grid.x), static_cast<unsigned>(launch.grid.y), 1},
          {kernel.threads, 1, 1},
          kernel.shared_bytes,
          addresses.data(),
          nullptr,
          nullptr,
          nullptr};
}

}  // namespace

void Launch::append(const void* argument, size_t n, size_t alignment) {
  n_bytes = (n_bytes + alignment - 1) / alignment * alignment;
  if (n_bytes + n > MOST_BYTES || n_arguments == MOST_ARGUMENTS)
    throw std::length_error("a kernel has too many arguments");
  std::memcpy(bytes.data() + n_bytes, argument, n);
  starts[n_arguments++] = static_cast<uint16_t>(n_bytes);
  n_bytes += n;
}

std::array<void*, Launch::MOST_ARGUMENTS> Launch::addresses() const {
  std::array<void*, MOST_ARGUMENTS> found{};
  for (size_t i = 0; i < n_arguments; ++i)
    found[i] = const_cast<std::byte*>(bytes.data() + starts[i]);
  return found;
}

bool Launch::operator==(const Launch& other) const {
  return kernel == other.kernel && grid == other.grid && n_bytes == other.n_bytes &&
         std::memcmp(bytes.data(), other.bytes.data(), n_bytes) == 0;
}

bool Graph::is_there() { return driver().drop_graph != nullptr; }

void Graph::add(const Launch& launch) {
  const size_t at = at_++;
  if (at == launches_.size()) {
    launches_.push_back(launch);
    is_same_ = false;
  } else if (!(launches_[at] == launch)) {
    is_same_ &= launches_[at].kernel.handle == launch.kernel.handle;
    launches_[at] = launch;
    if (!is_same_) return;
    std::array<void*, Launch::MOST_ARGUMENTS> addresses;
    const KernelNode node = node_of(launch, addresses);
    check(driver().set_kernel(pointer(instance_), pointer(nodes_[at]), &node), "a graph's kernel");
  }
}

void Graph::finish() {
  if (is_same_ && at_ == launches_.size()) return;
  launches_.erase(launches_.begin() + static_cast<std::ptrdiff_t>(at_), launches_.end());
  drop();
  void *graph = nullptr, *instance = nullptr;
  check(driver().new_graph(&graph, 0), "a graph");
  graph_ = reinterpret_cast<uint64_t>(graph);
  for (const Launch& launch : launches_) {
    std::array<void*, Launch::MOST_ARGUMENTS> addresses;
    const KernelNode node = node_of(launch, addresses);
    void* added = nullptr;
    check(driver().add_kernel(&added, graph, nullptr, 0, &node), "a graph's kernel");
    if (!nodes_.empty()) {
      void* const before = pointer(nodes_.back());
      const Edge edge;
      check(driver().add_edge(graph, &before, &added, overlaps_ ? &edge : nullptr, 1),
            "a graph's edge");
    }
    nodes_.push_back(reinterpret_cast<uint64_t>(added));
  }
  check(driver().instantiate(&instance, graph, 0), "a graph");
  instance_ = reinterpret_cast<uint64_t>(instance);
  is_same_ = true;
}

void Graph::drop() {
  if (instance_ != 0) driver().drop_instance(pointer(instance_));
  if (graph_ != 0) driver().drop_graph(pointer(graph_));
  instance_ = graph_ = 0;
  nodes_.clear();
}

void Stream::launch(const Launch& launch) const {
  launch_raw(launch.kernel, launch.grid, launch.addresses().data());
}

void Stream::run(uint64_t graph) const {
  check(driver().run(pointer(graph), pointer(handle_)), "a graph");
}

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
