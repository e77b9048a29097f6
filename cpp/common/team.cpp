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
//
// Nobody waits for helpers that come late, either: who wakes up after the work is done finds the
// gate closed. A helper first counts itself inside, then looks at the gate; the leader first closes
// the gate, then looks whether somebody is inside. In one order for all, one of them sees the
// other.
struct Team::Shared {
  static constexpr uint32_t CLOSED = 0;
  std::atomic<uint32_t> round{1};      // a new one says that there may be work, or the end
  std::atomic<uint32_t> gate{CLOSED};  // or the round whose work is to be done
  std::atomic<int> n_inside{0};        // helpers that may be at work
  std::atomic<int> n_kept{1}, n_there{1};
  // Written while the gate is closed and nobody is inside, read by those who found it open.
  TeamWork work{};
  int n_wanted = 0, n_spins = 0;

  // What a helper does; `seen` is the last round before it was made.
  static void help(const std::shared_ptr<Shared>& team, int thread, uint32_t seen, int n_spins) {
    uint32_t done = CLOSED;  // the last round that it worked in
    while (true) {
      wait_while(team->round, seen, n_spins);
      const uint32_t round = team->round.load(std::memory_order_acquire);
      if (round == seen) continue;
      seen = round;
      if (thread >= team->n_kept.load(std::memory_order_acquire)) break;
      team->n_inside.fetch_add(1);
      const uint32_t open = team->gate.load();
      if (open != CLOSED && open != done) {
        done = open;
        n_spins = team->n_spins;
        if (thread < team->n_wanted) team->work.call(team->work.self, thread);
      }
      if (team->n_inside.fetch_sub(1) == 1) team->n_inside.notify_one();
    }
    team->n_there.fetch_sub(1);
    team->n_there.notify_one();
  }

  uint32_t next_round() const {
    const uint32_t next = round.load(std::memory_order_relaxed) + 1;
    return next == CLOSED ? next + 1 : next;
  }

  void call_all() {
    round.store(next_round(), std::memory_order_release);
    round.notify_all();
  }

  void lead(TeamWork given, int n_threads) {
    work = given;
    n_wanted = n_threads;
    n_spins = spins_of(n_threads);
    gate.store(next_round());
    call_all();
    work.call(work.self, 0);
    gate.store(CLOSED);
    wait_for(n_inside, 0, n_spins);
  }

  // Helpers beyond n_threads end; their numbers are free when this returns.
  void keep(int n_threads) {
    n_kept.store(n_threads, std::memory_order_release);
    call_all();
    wait_for(n_there, n_threads, n_spins);
  }

  // Until a count has come down.
  static void wait_for(const std::atomic<int>& count, int least, int n_spins) {
    for (int now; (now = count.load()) > least;) wait_while(count, now, n_spins);
  }
};

Team::Team() : process_(this_process()) {}

Team::~Team() {
  if (!shared_ || process_ != this_process()) return;
  shared_->n_kept.store(0, std::memory_order_release);
  shared_->call_all();
}

// Makes threads until there are n_threads, as far as the system allows; returns how many to use.
int Team::grow(int n_threads) {
  if (least_refused_ > 0 && n_threads >= least_refused_) return n_threads_;
  if (!shared_) shared_ = std::make_shared<Shared>();
  shared_->n_kept.store(n_threads, std::memory_order_release);
  try {
    for (; n_threads_ < n_threads; ++n_threads_) {
      std::thread(Shared::help, shared_, n_threads_, shared_->round.load(), spins_of(n_threads))
          .detach();
      shared_->n_there.fetch_add(1);
    }
    return n_threads;
  } catch (const std::system_error&) {  // no more than these
  } catch (const std::bad_alloc&) {     // nor memory for more
  }
  least_refused_ = n_threads;
  n_threads_ = std::max(1, n_threads_ * 3 / 4);  // others may want some, too: the rest ends
  shared_->keep(n_threads_);
  return n_threads_;
}

void Team::run(int n_threads, TeamWork work) {
  if (process_ != this_process()) *this = Team();
  if (n_threads > n_threads_) n_threads = grow(n_threads);
  if (n_threads <= 1) return work.call(work.self, 0);
  shared_->lead(work, n_threads);
}

Team& own_team() {
  thread_local Team team;
  return team;
}

}  // namespace bitgrove
