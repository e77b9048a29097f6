// What the threads of a region do, and tell each other.
#include "common/parallel.h"

#include <nanobind/nanobind.h>

#include <chrono>
#include <exception>
#include <vector>

#include "bindings/gil.h"
#include "common/team.h"

namespace bitgrove {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto BETWEEN_LOOKS = std::chrono::milliseconds(100);
// Tasks between two looks at the clock: some are shorter than reading it.
constexpr int64_t TASKS_PER_LOOK = 16;

thread_local bool is_in_region = false;

// Throws if the user pressed Ctrl-C; only for the thread that called the core.
void look_for_signals() {
  thread_local Clock::time_point last_look{};
  const Clock::time_point now = Clock::now();
  if (now - last_look < BETWEEN_LOOKS) return;
  last_look = now;
  wait_if_left();
  nanobind::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

// The tasks [next, end) of one thread, which whoever has none left helps with.
struct alignas(64) Share {
  std::atomic<int64_t> next;
  int64_t end;
};

// Every thread has a share of neighbouring tasks: what it wrote in the last region is still in its
// caches in the next one, if tasks are numbered alike.
struct Region {
  Region(int64_t n_tasks, int n_members, TaskWork given) : work(given), shares(n_members) {
    for (int i = 0; i < n_members; ++i) {
      shares[i].next.store(n_tasks * i / n_members, std::memory_order_relaxed);
      shares[i].end = n_tasks * (i + 1) / n_members;
    }
  }

  TaskWork work;
  std::vector<Share> shares;
  std::atomic<bool> stopped{false};  // one of the threads failed, or the user wants an end
  std::exception_ptr error{};

  void take_tasks(int member) {
    const auto n_members = static_cast<int>(shares.size());
    int64_t n_taken = 0;
    for (int i = 0; i < n_members; ++i) {
      Share& share = shares[(member + i) % n_members];
      for (int64_t task; !stopped.load(std::memory_order_relaxed) &&
                         (task = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
        if (member == 0 && n_taken++ % TASKS_PER_LOOK == 0) look_for_signals();
        work.call(work.self, task, member);
      }
    }
  }

  // Keeps the first exception of all threads: it belongs to the one that called.
  static void run(void* self, int member) {
    auto& region = *static_cast<Region*>(self);
    is_in_region = true;
    try {
      region.take_tasks(member);
    } catch (...) {
      if (!region.stopped.exchange(true)) region.error = std::current_exception();
    }
    is_in_region = false;
  }
};

}  // namespace

void run_tasks(int64_t n_tasks, int n_threads, TaskWork work) {
  if (n_threads > 1 && !is_in_region) {
    Region region(n_tasks, n_threads, work);
    own_team().run(n_threads, {&region, Region::run});
    if (region.error) std::rethrow_exception(region.error);
    return;
  }
  for (int64_t task = 0; task < n_tasks; ++task) {
    if (task % TASKS_PER_LOOK == 0) look_for_signals();
    work.call(work.self, task, 0);
  }
}

}  // namespace bitgrove
