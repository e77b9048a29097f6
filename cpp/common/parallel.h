// Threads: one parallel region per verb, tasks handed out dynamically. Results never depend on
// who ran what, because every reduction is over integers or over fixed positions.
// A task may throw, and Ctrl-C ends a region between two tasks of the thread that called.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace bitgrove {

// Rows per task: small enough to balance, large enough that handing out costs nothing.
constexpr int64_t ROW_BLOCK = 8192;

inline int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }

// Calling a thread takes time: there is one for each so much of the work.
inline int threads_for(int64_t n_work, int64_t work_per_thread, int n_threads) {
  const int64_t n_worth = n_work / work_per_thread;
  return n_worth < 1 ? 1 : n_worth < n_threads ? static_cast<int>(n_worth) : n_threads;
}

// What is done with a task, of any type: regions are compiled once.
struct TaskWork {
  const void* self;
  void (*call)(const void* self, int64_t task, int member);
};

// What `work` does for every task in [0, n_tasks).
void run_tasks(int64_t n_tasks, int n_threads, TaskWork work);

// Calls work(task), or work(task, member) with the number of the thread that does it, for every
// task in [0, n_tasks), on a thread for each `tasks_per_thread` of them. What a task throws is
// thrown here, after the region. A region within a task has one thread.
template <class Work>
void parallel_tasks(int64_t n_tasks, int n_threads, Work&& work, int64_t tasks_per_thread = 1) {
  using Callable = std::remove_reference_t<Work>;
  const auto call = [](const void* self, int64_t task, [[maybe_unused]] int member) {
    auto& callable = *static_cast<Callable*>(const_cast<void*>(self));
    if constexpr (std::is_invocable_v<Work, int64_t, int>)
      callable(task, member);
    else
      callable(task);
  };
  run_tasks(n_tasks, threads_for(n_tasks, tasks_per_thread, n_threads),
            {std::addressof(work), call});
}

// For tasks that are not blocks but work on so many rows in all.
inline int threads_for_rows(int64_t n_rows, int n_threads) {
  return threads_for(n_rows, ROW_BLOCK, n_threads);
}

// Calls work(begin, end) over blocks of rows.
template <class Work>
void parallel_rows(int64_t n_rows, int n_threads, Work&& work) {
  parallel_tasks(blocks_of(n_rows, ROW_BLOCK), n_threads, [&](int64_t task) {
    const int64_t begin = task * ROW_BLOCK;
    work(begin, begin + ROW_BLOCK < n_rows ? begin + ROW_BLOCK : n_rows);
  });
}

// A lock of one byte for the rare moments when two threads add into the same histogram.
class SpinLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_;
};

}  // namespace bitgrove
