// Teams of several threads at once, that grow, get fewer members to do and end: every task of a
// region is done once, whoever comes in time, sees what its caller wrote before, and its caller
// sees what it wrote.
#include <atomic>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

#include "common/team.h"

namespace {

constexpr int N_REGIONS = 300, N_CALLERS = 3, N_LIVES = 4, MOST_THREADS = 6, N_TASKS = 12;

struct Region {
  int given = 0, n_threads = 0;
  std::atomic<int> next{0};
  int found[N_TASKS] = {};
  std::atomic<bool> too_many{false};

  static void work(void* self, int thread) {
    auto& region = *static_cast<Region*>(self);
    if (thread >= region.n_threads) region.too_many = true;
    for (int task; (task = region.next.fetch_add(1)) < N_TASKS;)
      region.found[task] += region.given + task;
  }
};

bool is_right(const Region& region) {
  for (int task = 0; task < N_TASKS; ++task)
    if (region.found[task] != region.given + task) return false;
  return !region.too_many;
}

void call(int caller, bool& right) {
  for (int i = 0; i < N_REGIONS; ++i) {
    Region region;
    region.given = 1 + i;
    region.n_threads = 1 + (7 * i + caller) % MOST_THREADS;
    bitgrove::own_team().run(region.n_threads, {&region, Region::work});
    right = right && is_right(region);
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
