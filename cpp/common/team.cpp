#include "common/team.h"

#include <algorithm>
#include <array>
#include <bit>
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

// Of a region of n_threads threads: the next one may want the whole team.
int spins_of(int n_threads, int n_team) {
  static const int n_cores = static_cast<int>(std::thread::hardware_concurrency());
  if (n_cores == 0) return SPINS_PER_THREAD * n_threads;
  return n_threads > n_cores ? SPINS_OF_TOO_MANY : SPINS_PER_THREAD * std::min(n_team, n_cores);
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

// Helpers are called by groups, 1, 2 and 3, 4 to 7, ...: a region of few threads leaves the others
// asleep.
constexpr int N_GROUPS = 31;
int group_of(int thread) { return std::bit_width(static_cast<unsigned>(thread)) - 1; }

// A new number says that there is work, or the end. A cache line and a word apart from the next:
// the standard library looks for sleepers by some bits of an address.
struct Bell {
  std::atomic<uint32_t> round{0};
  uint8_t apart[64];

  void ring() {
    round.fetch_add(1, std::memory_order_release);
    round.notify_all();
  }
};

}  // namespace

// One helper. Whoever leaves may still be asleep when another one gets its number.
struct Team::Helper {
  int thread;
  std::atomic<bool> leaves{false};
};

// The helpers keep it alive: nobody waits for them when a team ends.
struct Team::Shared {
  static constexpr uint32_t CLOSED = 1u << 31;

  std::array<Bell, N_GROUPS> bells;
  // How many helpers are at work, and whether no more may begin. Those that come too late, because
  // they slept or had no core, find it closed: nobody waits for them.
  std::atomic<uint32_t> gate{CLOSED};
  // Written while the gate is closed, read behind it.
  TeamWork work{};
  int n_wanted = 0, n_spins = 0;

  bool enter() {
    uint32_t state = gate.load(std::memory_order_acquire);
    while (state < CLOSED)
      if (gate.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) return true;
    return false;
  }
  void leave() {
    if (gate.fetch_sub(1, std::memory_order_acq_rel) == CLOSED + 1) gate.notify_one();
  }

  // What a helper does; `seen` is the last round before it was made.
  static void help(const std::shared_ptr<Shared>& team, const std::shared_ptr<Helper>& self,
                   uint32_t seen, int n_spins) {
    const std::atomic<uint32_t>& round = team->bells[group_of(self->thread)].round;
    for (;;) {
      while (round.load(std::memory_order_acquire) == seen) wait_while(round, seen, n_spins);
      seen = round.load(std::memory_order_acquire);
      if (self->leaves.load(std::memory_order_acquire)) return;
      if (!team->enter()) continue;
      const bool leaves = self->leaves.load(std::memory_order_relaxed);
      n_spins = team->n_spins;
      if (!leaves && self->thread < team->n_wanted) team->work.call(team->work.self, self->thread);
      team->leave();
      if (leaves) return;
    }
  }

  // The groups that hold the helpers [first, last).
  void call(int first, int last) {
    for (int group = group_of(first); first < last && group <= group_of(last - 1); ++group)
      bells[group].ring();
  }
};

Team::Team() : process_(this_process()) {}

Team::~Team() {
  if (!shared_ || process_ != this_process()) return;
  send_away(1);
}

// The helpers from number n_threads on end when they next look.
void Team::send_away(int n_threads) {
  const int n_before = n_threads_;
  for (; n_threads_ > n_threads; --n_threads_) {
    helpers_.back()->leaves.store(true, std::memory_order_release);
    helpers_.pop_back();
  }
  shared_->call(n_threads, n_before);
}

// Makes threads until there are n_threads, as far as the system allows; returns how many to use.
int Team::grow(int n_threads) {
  if (least_refused_ > 0 && n_threads >= least_refused_) return n_threads_;
  if (!shared_) shared_ = std::make_shared<Shared>();
  try {
    for (; n_threads_ < n_threads; ++n_threads_) {
      const auto helper = std::make_shared<Helper>();
      helper->thread = n_threads_;
      helpers_.reserve(helpers_.size() + 1);  // so that it cannot fail once the thread is there
      const uint32_t seen = shared_->bells[group_of(n_threads_)].round.load();
      std::thread(Shared::help, shared_, helper, seen, spins_of(n_threads, n_threads)).detach();
      helpers_.push_back(helper);
    }
    return n_threads;
  } catch (const std::system_error&) {  // no more than these
  } catch (const std::bad_alloc&) {     // nor memory for more
  }
  least_refused_ = n_threads;
  send_away(std::max(1, n_threads_ * 3 / 4));  // others may want some, too
  return n_threads_;
}

void Team::run(int n_threads, TeamWork work) {
  if (process_ != this_process()) *this = Team();
  if (n_threads > n_threads_) n_threads = grow(n_threads);
  if (n_threads <= 1) return work.call(work.self, 0);
  Shared& shared = *shared_;
  shared.work = work;
  shared.n_wanted = n_threads;
  shared.n_spins = spins_of(n_threads, n_threads_);
  // In this order: who hears the bell finds the gate open. Who enters before may come twice.
  shared.gate.store(0, std::memory_order_release);
  shared.call(1, n_threads);
  work.call(work.self, 0);
  uint32_t state = shared.gate.fetch_or(Shared::CLOSED, std::memory_order_acq_rel) | Shared::CLOSED;
  for (; state != Shared::CLOSED; state = shared.gate.load(std::memory_order_acquire))
    wait_while(shared.gate, state, shared.n_spins);
}

Team& own_team() {
  thread_local Team team;
  return team;
}

}  // namespace bitgrove
