// See ahead.h.
#include "cuda/ahead.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace bitgrove {
namespace {

// Rounds that are launched before the first of them is known to be over: the device must never
// wait, but what is launched after the last one is launched in vain.
constexpr int64_t ROUNDS_AHEAD = 3;
// Histograms are not given back on the device: so many slots for each leaf, or the host plans.
constexpr double SLOTS_PER_LEAF = 1.2;

int64_t nodes_of(int64_t num_leaves) { return std::min<int64_t>(4 * num_leaves, MOST_AHEAD_NODES); }
int64_t batch_of(int64_t num_leaves) { return std::min<int64_t>(num_leaves, MOST_BATCH); }

// Places of arrays behind each other.
class Layout {
 public:
  explicit Layout(uint64_t first) : first_(first), end_(first) {}

  template <class Record>
  void place(Record*& array, int64_t n) {
    array = reinterpret_cast<Record*>(end_);
    end_ += (sizeof(Record) * static_cast<uint64_t>(n) + 15) / 16 * 16;
  }
  int64_t n_bytes() const { return static_cast<int64_t>(end_ - first_); }

 private:
  uint64_t first_, end_;
};

// Bytes that it takes on the device and on the host.
AheadRoom lay_out(AheadBooks& books, int64_t num_leaves, DeviceAddress device, uint64_t host) {
  const int64_t n_nodes = nodes_of(num_leaves), n_batch = batch_of(num_leaves);
  Layout there(device), here(host);
  there.place(books.rules, 1);
  there.place(books.state, 1);
  there.place(books.nodes, n_nodes);
  there.place(books.found, n_nodes);
  there.place(books.known, num_leaves);
  there.place(books.waiting, 2 * n_batch);
  there.place(books.batch, n_batch);
  there.place(books.sizes, 1);
  there.place(books.divisions, n_batch);
  there.place(books.first_division, n_batch + 1);
  there.place(books.cleared, n_batch);
  there.place(books.builds, n_batch);
  there.place(books.first_build, n_batch + 1);
  there.place(books.searched, 2 * n_batch);
  there.place(books.left, n_batch);
  here.place(books.progress, 1);
  here.place(books.told, n_nodes);
  return {there.n_bytes(), here.n_bytes()};
}

}  // namespace

AheadRoom ahead_room(int64_t num_leaves) {
  AheadBooks books{};
  return lay_out(books, num_leaves, 0, 0);
}

AheadGrowth::AheadGrowth(const AheadKernels& kernels, int64_t num_leaves, DeviceAddress device,
                         uint64_t host, DeviceAddress missing_bin, bool overlaps)
    : kernels_(kernels), num_leaves_(num_leaves), device_(device), round_(overlaps) {
  lay_out(books_, num_leaves, device, host);
  books_.missing_bin = reinterpret_cast<const int64_t*>(missing_bin);
  const auto at = [&](const void* place) {
    return static_cast<int64_t>(reinterpret_cast<uint64_t>(place) - device);
  };
  places_.sizes = at(books_.sizes);
  places_.divisions = at(books_.divisions);
  places_.first_division = at(books_.first_division);
  places_.cleared = at(books_.cleared);
  places_.builds = at(books_.builds);
  places_.first_build = at(books_.first_build);
  places_.nodes = at(books_.searched);
}

bool AheadGrowth::takes(const CudaTree& tree, const Frontier& frontier) const {
  const int64_t num_leaves = frontier.rules().num_leaves;
  const auto n_slots = static_cast<int64_t>(SLOTS_PER_LEAF * static_cast<double>(num_leaves)) + 2;
  const FrontierNode& root = frontier.nodes()[0];
  return !frontier.node_rules() && num_leaves <= num_leaves_ && tree.n_slots >= n_slots &&
         frontier.rules().may_split(0, root.all.both(), root.hess);
}

AheadRules AheadGrowth::rules_for(const CudaTree& tree, const Frontier& frontier,
                                  double alpha) const {
  const int64_t narrow_rows = frontier.widths().local_rows[1];
  const bool is_narrow = tree.half_bits < 32 && narrow_rows >= LEAST_NARROW_ROWS;
  const int64_t n_most = frontier.rules().num_leaves - 1;
  const auto most_batch = static_cast<int64_t>(std::ceil(alpha * static_cast<double>(n_most)));
  return {frontier.rules(),
          alpha,
          nodes_of(num_leaves_),
          std::min({most_batch, batch_of(num_leaves_), tree.buffers.n_nodes / 2}),
          tree.n_slots,
          tree.slot_size(),
          tree.matrix.n_features,
          tree.n_tiles(),
          tree.n_processors,
          tree.half_bits == 32 ? 3
          : is_narrow          ? 1
                               : 2,
          is_narrow ? narrow_rows : MOST_ROWS};
}

// As many blocks as the largest round can have.
void AheadGrowth::prepare_round(const CudaTree& tree, const AheadRules& rules) {
  const int64_t n_rows = tree.n_listed, n_batch = rules.most_batch;
  const int64_t least_rows = std::min(
      rules.most_block_rows,
      build_block_rows(n_rows, rules.n_tiles, rules.n_processors, static_cast<int>(rules.words)));
  const int64_t spread = BLOCKS_PER_PROCESSOR * rules.n_processors / rules.n_tiles;
  const int64_t build_blocks = std::max(blocks_of(n_rows, least_rows), spread) + n_batch;
  const int64_t n_searched = 2 * n_batch;
  const int64_t find_blocks = std::min(n_searched * search_blocks(rules.n_features, 1),
                                       MANY_WARPS / FEATURES_PER_BLOCK + n_searched);
  const int64_t division_blocks = blocks_of(n_rows, PARTITION_ROWS) + n_batch;
  Kernel choose = kernels_.choose;
  const auto n_most = static_cast<unsigned>(std::max(rules.growth.num_leaves, n_searched));
  choose.threads = std::max(2u * 32, std::bit_ceil(n_most));
  Plan plan{};
  plan.address = device_;
  round_.begin();
  if (rules.slot_size > MOST_CLEARED) round_.add(tree.clearing(plan, places_));
  round_.add(tree.building(plan, places_, build_blocks, rules.words == 1));
  round_.add(tree.searching(plan, places_, find_blocks, {0, rules.n_features},
                            reinterpret_cast<uint64_t>(books_.found)));
  round_.add({choose, {1}, books_});
  round_.add(
      tree.division(plan, places_, division_blocks, reinterpret_cast<uint64_t>(books_.left)));
  Launch place = tree.placing(kernels_.place, plan, places_, division_blocks + BOOK_BLOCKS);
  place.add(books_);
  round_.add(place);
  round_.finish();
}

void AheadGrowth::begin(const CudaTree& tree, const Frontier& frontier, double alpha) {
  const AheadRules rules = rules_for(tree, frontier, alpha);
  prepare_round(tree, rules);
  const FrontierNode& node = frontier.nodes()[0];
  const AheadRoot root{node.all.both(), {node.grad, node.hess}, node.key};
  __atomic_store_n(books_.progress, 0, __ATOMIC_RELEASE);
  tree.stream.launch(kernels_.start, {1}, books_, rules, root, tree.pool);
  for (int64_t i = 0; i < ROUNDS_AHEAD; ++i) round_.run(tree.stream);
}

// Keeps the device busy, and tells the frontier what it has found meanwhile.
void AheadGrowth::follow(const CudaTree& tree, Frontier& frontier) const {
  int64_t n_launched = ROUNDS_AHEAD, n_known = 0;
  for (uint64_t progress = 0;;) {
    const uint64_t seen = progress;
    tree.stream.watch([&] {
      progress = __atomic_load_n(books_.progress, __ATOMIC_ACQUIRE);
      return progress != seen;
    });
    const auto n_rounds = static_cast<int64_t>(progress << 1 >> 1 >> PROGRESS_ROUNDS);
    const auto n_told = static_cast<int64_t>(progress & 0xFFFFFFFFu);
    const bool is_done = progress >> PROGRESS_DONE != 0;
    for (; !is_done && n_launched < n_rounds + ROUNDS_AHEAD; ++n_launched) round_.run(tree.stream);
    frontier.adopt({books_.told + n_known, static_cast<size_t>(n_told - n_known)});
    n_known = n_told;
    if (is_done) return frontier.count_rounds(n_rounds - 1);
  }
}

}  // namespace bitgrove
