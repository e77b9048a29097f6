// A CUDA driver without a GPU: the functions that the core and the emulated CuPy call.
//
// A launch runs the blocks of its grid one after the other, on the thread of the caller, and is
// over when it returns. The threads of a block are fibers that hand over where they wait for each
// other. In which order they run CUDA does not say: the environment's EMULATED_ORDER does, forward,
// backward or mixed. What blocks do to each other at the same time cannot be seen here.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <vector>

#if !defined(__x86_64__)
#error "fibers are written for x86-64 alone"
#endif

namespace {

struct Dim {
  unsigned x = 1, y = 1, z = 1;
};
struct Thread {
  Dim thread, block, block_size, grid_size;
};

}  // namespace

extern "C" {
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void*, void**, void**);
Thread emulated_thread;
void* emulated_dynamic_memory;
void emulated_switch(void** from, void* to);
}

// Saves what a call must preserve and goes on where the other fiber stopped.
asm(R"(
.text
.globl emulated_switch
.type emulated_switch, @function
emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

namespace {

constexpr int WARP = 32, MOST_THREADS = 1024, SAVED_REGISTERS = 6;
constexpr size_t STACK_BYTES = 256 << 10, DYNAMIC_BYTES = 256 << 10;
constexpr int UNWRITTEN = 0xCD;
constexpr int OK = 0, OUT_OF_MEMORY = 2, LAUNCH_FAILED = 719;

using Call = void (*)(void**);
struct Kernel {
  const char* name;
  Call call;
  const size_t* sizes;  // of its arguments, and 0
};

enum class State { ready, in_block, in_warp, ended };

struct Fiber {
  void* stack_pointer = nullptr;
  char* stack = nullptr;
  Dim thread;
  State state = State::ended;
};

struct Warp {
  uint64_t values[2][WARP];  // lanes may give the next value while others still read the last
  unsigned there = 0, waiting = 0, mask = 0;  // lanes
  int turn = 0;
};

// One block at a time, whichever host thread launches it.
struct Machine {
  std::mutex mutex;
  Fiber fibers[MOST_THREADS];
  Warp warps[MOST_THREADS / WARP];
  void* host_stack = nullptr;
  int n_threads = 0, running = -1, n_waiting = 0, n_ended = 0;
  int64_t sum = 0, last_sum = 0;
  size_t dynamic_bytes = 0;
  Call call = nullptr;
  void** arguments = nullptr;
  const char* fault = nullptr;
  std::vector<int> order;
};
Machine machine;

void to_host() {
  emulated_switch(&machine.fibers[machine.running].stack_pointer, machine.host_stack);
}

// All that is still there waits: they go on.
void release_block() {
  if (machine.n_waiting + machine.n_ended < machine.n_threads) return;
  machine.last_sum = machine.sum;
  machine.sum = 0;
  machine.n_waiting = 0;
  for (int i = 0; i < machine.n_threads; ++i)
    if (machine.fibers[i].state == State::in_block) machine.fibers[i].state = State::ready;
}

void release_warp(int at) {
  Warp& warp = machine.warps[at];
  if (warp.waiting == 0 || (warp.mask & warp.there) != warp.waiting) return;
  for (int lane = 0; lane < WARP; ++lane)
    if (warp.waiting >> lane & 1) machine.fibers[at * WARP + lane].state = State::ready;
  warp.waiting = 0;
  warp.turn = 1 - warp.turn;
}

void run_thread() {
  machine.call(machine.arguments);
  machine.fibers[machine.running].state = State::ended;
  ++machine.n_ended;
  release_block();
  machine.warps[machine.running / WARP].there &= ~(1u << machine.running % WARP);
  release_warp(machine.running / WARP);
  to_host();
}

void start_fiber(Fiber& fiber, Dim thread) {
  fiber.thread = thread;
  fiber.state = State::ready;
  void** top = reinterpret_cast<void**>(fiber.stack + STACK_BYTES);
  *--top = nullptr;  // a call leaves the stack 8 bytes off a multiple of 16
  *--top = reinterpret_cast<void*>(&run_thread);
  top -= SAVED_REGISTERS;
  std::memset(top, 0, SAVED_REGISTERS * sizeof(void*));
  fiber.stack_pointer = top;
}

// Memory that ends at, or begins behind, a page that nobody may touch.
struct Piece {
  size_t page, used, n_pages_bytes;

  explicit Piece(size_t n_bytes) {
    constexpr size_t ALIGNMENT = 16;
    page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    used = (n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    n_pages_bytes = (used + page - 1) / page * page;
  }
  char* reserve(bool guard_is_below) const {
    void* memory = mmap(nullptr, n_pages_bytes + page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    char* first = static_cast<char*>(memory);
    char* guard = guard_is_below ? first : first + n_pages_bytes;
    if (mprotect(guard, page, PROT_NONE) != 0) return nullptr;
    return guard_is_below ? first + page : first + n_pages_bytes - used;
  }
  void give_back(char* address) const {
    munmap(address + used - n_pages_bytes, n_pages_bytes + page);
  }
};

char* dynamic_end = nullptr;

bool make_stacks() {
  for (Fiber& fiber : machine.fibers) {
    fiber.stack = Piece(STACK_BYTES).reserve(true);
    if (!fiber.stack) return false;
  }
  char* memory = Piece(DYNAMIC_BYTES).reserve(false);
  dynamic_end = memory + DYNAMIC_BYTES;
  return memory != nullptr;
}

// forward, backward, or mixed: another one for every block.
void order_threads(unsigned block) {
  static const char* const wanted = std::getenv("EMULATED_ORDER");
  std::vector<int>& order = machine.order;
  order.resize(static_cast<size_t>(machine.n_threads));
  std::iota(order.begin(), order.end(), 0);
  if (!wanted) return;
  if (std::strcmp(wanted, "backward") == 0) std::reverse(order.begin(), order.end());
  if (std::strcmp(wanted, "mixed") == 0)
    std::shuffle(order.begin(), order.end(), std::minstd_rand(block + 1));
}

void run_block() {
  machine.n_waiting = machine.n_ended = 0;
  machine.sum = 0;
  for (Warp& warp : machine.warps) warp.there = warp.waiting = 0;
  std::memset(emulated_dynamic_memory, UNWRITTEN, machine.dynamic_bytes);
  const Dim& size = emulated_thread.block_size;
  for (int i = 0; i < machine.n_threads; ++i) {
    const auto at = static_cast<unsigned>(i);
    machine.warps[i / WARP].there |= 1u << i % WARP;
    start_fiber(machine.fibers[i], {at % size.x, at / size.x % size.y, at / size.x / size.y});
  }
  order_threads(emulated_thread.block.x + emulated_thread.block.y);
  while (machine.n_ended < machine.n_threads) {
    bool has_run = false;
    for (int i : machine.order) {
      Fiber& fiber = machine.fibers[i];
      if (fiber.state != State::ready) continue;
      has_run = true;
      machine.running = i;
      emulated_thread.thread = fiber.thread;
      emulated_switch(&machine.host_stack, fiber.stack_pointer);
    }
    if (!has_run) {
      machine.fault = "threads of a block wait for each other for ever";
      return;
    }
  }
}

}  // namespace

extern "C" {

long long emulated_sync_block(long long value) {
  const int me = machine.running;
  machine.sum += value;
  machine.fibers[me].state = State::in_block;
  ++machine.n_waiting;
  release_block();
  if (machine.fibers[me].state != State::ready) to_host();
  return machine.last_sum;
}

const unsigned long long* emulated_gather(unsigned mask, unsigned long long value) {
  const int me = machine.running, at = me / WARP, lane = me % WARP;
  Warp& warp = machine.warps[at];
  const int turn = warp.turn;
  if (warp.waiting != 0 && warp.mask != mask) machine.fault = "lanes of a warp name other masks";
  warp.values[turn][lane] = value;
  warp.mask = mask;
  warp.waiting |= 1u << lane;
  machine.fibers[me].state = State::in_warp;
  release_warp(at);
  if (machine.fibers[me].state != State::ready) to_host();
  return reinterpret_cast<const unsigned long long*>(warp.values[turn]);
}

int cuLaunchKernel(void* handle, unsigned x, unsigned y, unsigned z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void*,
                   void** arguments, void**) {
  const std::lock_guard<std::mutex> alone(machine.mutex);
  static const bool has_stacks = make_stacks();
  if (!has_stacks) return OUT_OF_MEMORY;
  const auto* kernel = static_cast<const Kernel*>(handle);
  machine.n_threads = static_cast<int>(block_x * block_y * block_z);
  if (machine.n_threads > MOST_THREADS || shared_bytes > DYNAMIC_BYTES || shared_bytes % 16 != 0 ||
      z != 1)
    return LAUNCH_FAILED;
  machine.call = kernel->call;
  machine.arguments = arguments;
  machine.fault = nullptr;
  machine.dynamic_bytes = shared_bytes;
  emulated_dynamic_memory = dynamic_end - shared_bytes;
  emulated_thread.block_size = {block_x, block_y, block_z};
  emulated_thread.grid_size = {x, y, z};
  for (unsigned j = 0; j < y; ++j)
    for (unsigned i = 0; i < x && !machine.fault; ++i) {
      emulated_thread.block = {i, j, 0};
      run_block();
    }
  if (!machine.fault) return OK;
  std::fprintf(stderr, "%s: %s\n", kernel->name, machine.fault);
  return LAUNCH_FAILED;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t n_bytes, void*) {
  std::memcpy(reinterpret_cast<void*>(to), from, n_bytes);
  return OK;
}

int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t n_bytes, void*) {
  std::memcpy(to, reinterpret_cast<const void*>(from), n_bytes);
  return OK;
}

int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t n_bytes, void*) {
  std::memset(reinterpret_cast<void*>(to), byte, n_bytes);
  return OK;
}

int cuStreamSynchronize(void*) { return OK; }
int cuStreamQuery(void*) { return OK; }

int cuGetErrorName(int status, const char** name) {
  *name = status == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_LAUNCH_FAILED";
  return OK;
}

// Memory of the device: full of what nobody wrote.
void* emulated_malloc(size_t n_bytes) {
  char* memory = Piece(n_bytes).reserve(false);
  if (memory) std::memset(memory, UNWRITTEN, n_bytes);
  return memory;
}

void emulated_free(void* address, size_t n_bytes) {
  Piece(n_bytes).give_back(static_cast<char*>(address));
}

}  // extern "C"
