// Threads: one parallel region per verb, tasks handed out dynamically. Results never depend on
// who ran what, because every reduction is over integers or over fixed positions.
// A task may throw, and Ctrl-C ends a region between two tasks of the thread that called.
#pragma once

#include <omp.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <type_traits>
#if defined(__SANITIZE_THREAD__)
#include <thread>
#include <vector>
#endif

namespace bitgrove {

// Rows per task: small enough to balance, large enough that handing out costs nothing.
constexpr int64_t ROW_BLOCK = 8192;
// A thread that sleeps takes tens of microseconds to wake: as long as a few blocks of rows.
constexpr int64_t ROW_BLOCKS_PER_THREAD = 3;

inline int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }

// Tasks between two looks at the clock: some are shorter than reading it.
constexpr int64_t TASKS_PER_LOOK = 16;

// How many threads a region that asks for n_threads may have. Where the system refuses to make so
// many (ulimit -u, a container's limit of processes), libgomp would end the process.
int threads_granted(int n_threads);

// What the threads of a region tell each other: that one of them failed, or the user wants an end.
class Region {
 public:
  bool goes_on() const { return !stopped_.load(std::memory_order_relaxed); }

  // Runs body; keeps the first exception of all threads, since one that left a parallel region
  // would end the process.
  template <class Body>
  void run(Body&& body) noexcept {
    try {
      body();
    } catch (...) {
      if (!stopped_.exchange(true)) error_ = std::current_exception();
    }
  }

  // Stops the region if the user pressed Ctrl-C; only for the thread that called it.
  void look_for_signals();

  void finish() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::atomic<bool> stopped_{false};
  std::exception_ptr error_;
};

// Calls work(member) on n_threads threads; member 0 is the one that called.
template <class Work>
void run_team(int n_threads, Work&& work) {
#if defined(__SANITIZE_THREAD__)
  // ThreadSanitizer does not see the barriers of libgomp, and would report what they order.
  std::vector<std::thread> others;
  for (int i = 1; i < n_threads; ++i) others.emplace_back([&, i] { work(i); });
  work(0);
  for (std::thread& thread : others) thread.join();
#else
#pragma omp parallel num_threads(n_threads)
  work(omp_get_thread_num());
#endif
}

// Calls work(task), or work(task, member) with the number of the thread that does it, for every
// task in [0, n_tasks), on one thread if there are fewer than two times `tasks_per_thread`: waking
// threads takes as long as some amount of work. Otherwise on all: when a region asks for fewer
// threads than the last one, libgomp ends the others for good, and the next region pays for making
// them again. What a task throws is thrown here, after the region.
template <class Work>
void parallel_tasks(int64_t n_tasks, int n_threads, Work&& work, int64_t tasks_per_thread = 1) {
  const auto run = [&](int64_t task, int member) {
    if constexpr (std::is_invocable_v<Work, int64_t, int>)
      work(task, member);
    else
      work(task);
  };
  Region region;
  n_threads = n_tasks < 2 * tasks_per_thread ? 1 : threads_granted(n_threads);
  if (n_threads <= 1) {
    for (int64_t task = 0; task < n_tasks; ++task) {
      if (task % TASKS_PER_LOOK == 0) region.look_for_signals();
      run(task, 0);
    }
    return;
  }
  std::atomic<int64_t> next{0};
  run_team(n_threads, [&](int member) {
    region.run([&] {
      int64_t n_taken = 0;
      for (int64_t task;
           region.goes_on() && (task = next.fetch_add(1, std::memory_order_relaxed)) < n_tasks;) {
        if (member == 0 && n_taken++ % TASKS_PER_LOOK == 0) region.look_for_signals();
        run(task, member);
      }
    });
  });
  region.finish();
}

// For tasks that are not blocks but work on so many rows in all.
inline int threads_for_rows(int64_t n_rows, int n_threads) {
  return n_rows < 2 * ROW_BLOCKS_PER_THREAD * ROW_BLOCK ? 1 : n_threads;
}

// Calls work(begin, end) over blocks of rows.
template <class Work>
void parallel_rows(int64_t n_rows, int n_threads, Work&& work) {
  parallel_tasks(
      blocks_of(n_rows, ROW_BLOCK), n_threads,
      [&](int64_t task) {
        const int64_t begin = task * ROW_BLOCK;
        work(begin, begin + ROW_BLOCK < n_rows ? begin + ROW_BLOCK : n_rows);
      },
      ROW_BLOCKS_PER_THREAD);
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
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

}  // namespace bitgrove
