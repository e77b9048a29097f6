#include "common/team.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <thread>
#if !defined(_WIN32)
#include <unistd.h>
#endif

#include "common/compiler.h"

namespace bitgrove {
namespace {

// Looks at the word before a thread sleeps. Waking threads takes time in proportion to their
// number, so larger teams spin longer; one with more threads than cores is in its own way.
constexpr int SPINS_PER_THREAD = 1000, SPINS_OF_TOO_MANY = 100;

int spins_of(int n_threads) {
  static const int n_cores = static_cast<int>(std::thread::hardware_concurrency());
  return n_cores > 0 && n_threads > n_cores ? SPINS_OF_TOO_MANY : SPINS_PER_THREAD * n_threads;
}

// A process that was forked has the memory of a team, but not its threads.
int64_t this_process() {
#if defined(_WIN32)
  return 0;
#else
  return getpid();
#endif
}

template <class Word>
void wait_while(const std::atomic<Word>& word, Word old, int n_spins) {
  for (int i = 0; i < n_spins; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    relax_processor();
  }
  word.wait(old, std::memory_order_acquire);
}

}  // namespace

// The helpers keep it alive: nobody waits for them when a team ends.
struct Team::Shared {
  std::atomic<uint32_t> round{0};  // a new one says that there is work, or the end
  std::atomic<int> n_busy{0};      // helpers that have not yet answered the round
  // Written between rounds, read in them.
  TeamWork work{};
  int n_wanted = 0, n_kept = 0, n_spins = 0;

  // What a helper does; `seen` is the last round before it was made. Every helper that is there
  // answers every round, so that nobody reads the next round's work in this one.
  static void help(const std::shared_ptr<Shared>& team, int thread, uint32_t seen, int n_spins) {
    for (bool stays = true; stays;) {
      while (team->round.load(std::memory_order_acquire) == seen)
        wait_while(team->round, seen, n_spins);
      ++seen;
      n_spins = team->n_spins;
      stays = thread < team->n_kept;
      if (thread < team->n_wanted) team->work.call(team->work.self, thread);
      if (team->n_busy.fetch_sub(1, std::memory_order_acq_rel) == 1) team->n_busy.notify_one();
    }
  }

  void start(int n_helpers) {
    n_busy.store(n_helpers, std::memory_order_relaxed);
    round.fetch_add(1, std::memory_order_release);
    round.notify_all();
  }
};

Team::Team() : process_(this_process()) {}

Team::~Team() {
  if (!shared_ || process_ != this_process()) return;
  shared_->n_wanted = shared_->n_kept = 0;
  shared_->start(n_threads_ - 1);
}

// Makes threads until there are n_threads, as far as the system allows; returns how many to use.
int Team::grow(int n_threads) {
  if (least_refused_ > 0 && n_threads >= least_refused_) return n_threads_;
  if (!shared_) shared_ = std::make_shared<Shared>();
  try {
    for (; n_threads_ < n_threads; ++n_threads_)
      std::thread(Shared::help, shared_, n_threads_, shared_->round.load(), spins_of(n_threads))
          .detach();
    return n_threads;
  } catch (const std::system_error&) {  // no more than these
  } catch (const std::bad_alloc&) {     // nor memory for more
  }
  least_refused_ = n_threads;
  return std::max(1, n_threads_ * 3 / 4);  // others may want some, too: the rest will end
}

void Team::run(int n_threads, TeamWork work) {
  if (process_ != this_process()) *this = Team();
  if (n_threads > n_threads_) n_threads = grow(n_threads);
  if (n_threads <= 1) return work.call(work.self, 0);
  Shared& shared = *shared_;
  shared.work = work;
  shared.n_wanted = n_threads;
  shared.n_kept = least_refused_ > 0 ? n_threads : n_threads_;
  shared.n_spins = spins_of(n_threads);
  shared.start(n_threads_ - 1);
  n_threads_ = shared.n_kept;
  work.call(work.self, 0);
  for (int n_busy; (n_busy = shared.n_busy.load(std::memory_order_acquire)) > 0;)
    wait_while(shared.n_busy, n_busy, shared.n_spins);
}

Team& own_team() {
  thread_local Team team;
  return team;
}

}  // namespace bitgrove
