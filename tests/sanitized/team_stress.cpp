// Teams of several threads at once, that grow, get fewer members to do and end: every member works
// in each region or, if it wakes up too late, not at all; it sees what its caller wrote before, and
// its caller sees what it wrote. Where the caller waits for them, all of them come.
#include <atomic>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "common/team.h"

namespace {

constexpr int N_REGIONS = 300, N_CALLERS = 3, N_LIVES = 4, MOST_THREADS = 6;
constexpr int REGIONS_PER_WAIT = 8;

struct Region {
  int given = 0, n_awaited = 0;
  int found[MOST_THREADS] = {};
  std::atomic<int> n_here{0};

  static void work(void* self, int thread) {
    auto& region = *static_cast<Region*>(self);
    if (region.found[thread] == 0) ++region.n_here;
    region.found[thread] += region.given + thread;
    while (thread == 0 && region.n_here < region.n_awaited) std::this_thread::yield();
  }
};

bool is_right(const Region& region, int n_threads) {
  int n_found = 0;
  for (int thread = 0; thread < MOST_THREADS; ++thread) {
    const int found = region.found[thread];
    if (found != 0 && (thread >= n_threads || found % (region.given + thread) != 0)) return false;
    n_found += found != 0;
  }
  return region.found[0] != 0 && n_found >= region.n_awaited;
}

void call(int caller, bool& right) {
  for (int i = 0; i < N_REGIONS; ++i) {
    const int n_threads = 1 + (7 * i + caller) % MOST_THREADS;
    Region region;
    region.given = 1 + i;
    region.n_awaited = i % REGIONS_PER_WAIT == 0 ? n_threads : 0;
    bitgrove::own_team().run(n_threads, {&region, Region::work});
    right = right && is_right(region, n_threads);
  }
}

}  // namespace

int main() {
  bool all_right = true;
  for (int life = 0; life < N_LIVES; ++life) {  // a team ends with the thread that it helps
    bool right[N_CALLERS] = {true, true, true};
    std::vector<std::thread> callers;
    for (int c = 0; c < N_CALLERS; ++c) callers.emplace_back(call, c, std::ref(right[c]));
    for (std::thread& caller : callers) caller.join();
    for (const bool one : right) all_right = all_right && one;
  }
  std::puts(all_right ? "right" : "wrong");
  return all_right ? 0 : 1;
}
