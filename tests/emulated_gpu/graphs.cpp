// Graphs of kernels, as cuda.h has them. Compiled as one file with driver.cpp, behind it.
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

namespace {

bool is_forward() {
  const char* wanted = std::getenv("EMULATED_ORDER");
  return !wanted || std::strcmp(wanted, "backward") != 0;
}

// As in cuda.h.
struct KernelNode {
  void* kernel;
  unsigned grid[3], block[3], shared_bytes;
  void **arguments, **extra;
  void *handle, *context;
};

// A kernel of a graph, with copies of its arguments.
struct Node {
  KernelNode wanted{};
  std::vector<std::vector<std::max_align_t>> values;
  std::vector<Node*> after;
  bool has_run = false;

  void keep(const KernelNode& given) {
    wanted = given;
    values.clear();
    const size_t* sizes = static_cast<const Kernel*>(given.kernel)->sizes;
    for (size_t i = 0; sizes[i] > 0; ++i) {
      values.emplace_back((sizes[i] + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
      std::memcpy(values.back().data(), given.arguments[i], sizes[i]);
    }
  }
  bool may_run() const {
    return std::all_of(after.begin(), after.end(), [](const Node* node) { return node->has_run; });
  }
  int run(void* stream) {
    std::vector<void*> arguments;
    for (auto& value : values) arguments.push_back(value.data());
    has_run = true;
    const auto& [x, y, z] = wanted.grid;
    const auto& [block_x, block_y, block_z] = wanted.block;
    return cuLaunchKernel(wanted.kernel, x, y, z, block_x, block_y, block_z, wanted.shared_bytes,
                          stream, arguments.data(), nullptr);
  }
};
using Nodes = std::vector<std::unique_ptr<Node>>;
struct Graph {
  Nodes nodes;
};

}  // namespace

extern "C" {

int cuGraphCreate(void** graph, unsigned) {
  *graph = new Graph;
  return OK;
}

int cuGraphAddKernelNode_v2(void** node, void* graph, void* const*, size_t,
                            const KernelNode* wanted) {
  Nodes& nodes = static_cast<Graph*>(graph)->nodes;
  nodes.push_back(std::make_unique<Node>());
  nodes.back()->keep(*wanted);
  *node = nodes.back().get();
  return OK;
}

int cuGraphAddDependencies_v2(void*, void* const* from, void* const* to, const void*, size_t n) {
  for (size_t i = 0; i < n; ++i)
    static_cast<Node*>(to[i])->after.push_back(static_cast<Node*>(from[i]));
  return OK;
}

int cuGraphInstantiateWithFlags(void** instance, void* graph, unsigned long long) {
  *instance = graph;
  return OK;
}

int cuGraphExecKernelNodeSetParams_v2(void*, void* node, const KernelNode* wanted) {
  static_cast<Node*>(node)->keep(*wanted);
  return OK;
}

// Forward as it was put together; otherwise what came last of all that may run.
int cuGraphLaunch(void* instance, void* stream) {
  Nodes& nodes = static_cast<Graph*>(instance)->nodes;
  for (const auto& node : nodes) node->has_run = false;
  for (size_t n_run = 0; n_run < nodes.size(); ++n_run) {
    Node* next = nullptr;
    for (const auto& node : nodes)
      if (!node->has_run && node->may_run() && (!next || !is_forward())) next = node.get();
    if (!next) return LAUNCH_FAILED;
    if (const int status = next->run(stream); status != OK) return status;
  }
  return OK;
}

int cuGraphExecDestroy(void*) { return OK; }

int cuGraphDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return OK;
}

}  // extern "C"
