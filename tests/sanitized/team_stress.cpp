// Teams of several threads at once, that grow, get fewer members to do and end: every member works
// once in each region, sees what its caller wrote before, and its caller sees what it wrote.
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "common/team.h"

namespace {

constexpr int N_REGIONS = 300, N_CALLERS = 3, N_LIVES = 4, MOST_THREADS = 6;

struct Region {
  int given = 0;
  int found[MOST_THREADS] = {};

  static void work(void* self, int thread) {
    auto& region = *static_cast<Region*>(self);
    region.found[thread] += region.given + thread;
  }
};

bool is_right(const Region& region, int n_threads) {
  for (int thread = 0; thread < MOST_THREADS; ++thread)
    if (region.found[thread] != (thread < n_threads ? region.given + thread : 0)) return false;
  return true;
}

void call(int caller, bool& right) {
  for (int i = 0; i < N_REGIONS; ++i) {
    const int n_threads = 1 + (7 * i + caller) % MOST_THREADS;
    Region region;
    region.given = 1 + i;
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
