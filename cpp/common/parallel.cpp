// What a parallel region asks of the system: threads, and whether the user pressed Ctrl-C.
#include "common/parallel.h"

#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace bitgrove {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto BETWEEN_LOOKS = std::chrono::milliseconds(100);

// Makes n threads that live at the same time, or as many as the system allows.
int try_threads(int n) {
  std::mutex mutex;
  std::condition_variable ended;
  bool is_over = false;
  std::vector<std::thread> made;
  made.reserve(n);
  try {
    while (static_cast<int>(made.size()) < n)
      made.emplace_back([&] {
        std::unique_lock lock(mutex);
        ended.wait(lock, [&] { return is_over; });
      });
  } catch (const std::system_error&) {  // no more than these
  } catch (const std::bad_alloc&) {     // nor memory for more; those made must end first
  }
  {
    const std::lock_guard lock(mutex);
    is_over = true;
  }
  ended.notify_all();
  for (std::thread& thread : made) thread.join();
  return static_cast<int>(made.size());
}

}  // namespace

// libgomp keeps a team for each thread that calls, so each finds out for itself, and only when it
// asks for more than before.
int threads_granted(int n_threads) {
  thread_local int most_granted = 1, least_refused = 0;
  if (n_threads <= most_granted) return n_threads;
  if (least_refused > 0 && n_threads >= least_refused) return most_granted;
  const int made = try_threads(n_threads - 1) + 1;
  // A few less than the last that could be made: others may want some in the meantime.
  most_granted = made == n_threads ? made : made * 3 / 4 > 1 ? made * 3 / 4 : 1;
  if (made < n_threads) least_refused = n_threads;
  return most_granted;
}

void Region::look_for_signals() {
  thread_local Clock::time_point last_look{};
  const Clock::time_point now = Clock::now();
  if (now - last_look < BETWEEN_LOOKS) return;
  last_look = now;
  nanobind::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

}  // namespace bitgrove
