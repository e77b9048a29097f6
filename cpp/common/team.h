// The threads that help one thread in its parallel regions. They are made when first wanted, sleep
// between regions after a short spin, and end with the thread that they help.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace bitgrove {

// What each thread of a team does, by its number; it does not throw.
struct TeamWork {
  void* self;
  void (*call)(void* self, int thread);
};

class Team {
 public:
  Team();
  ~Team();
  Team& operator=(Team&&) = default;

  // Calls `work` on n_threads threads, of which the calling one is number 0; on fewer where the
  // system refuses to make so many (ulimit -u, a container's limit of processes), or where some
  // come only after number 0 has returned: so what one of them does is done when it returns.
  void run(int n_threads, TeamWork work);

 private:
  struct Helper;
  struct Shared;
  int grow(int n_threads);
  void send_away(int n_threads);

  int64_t process_;
  std::shared_ptr<Shared> shared_;
  std::vector<std::shared_ptr<Helper>> helpers_;
  int n_threads_ = 1;
  int least_refused_ = 0;  // 0: the system gave every thread that was asked for
};

// That of the calling thread.
Team& own_team();

}  // namespace bitgrove
