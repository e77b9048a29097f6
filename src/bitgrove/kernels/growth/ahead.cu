// The books of a tree that a GPU grows ahead of the host: which nodes to divide, and what to build
// and to search of their children. One block each; the plans they write are those that the host
// would send (see ahead_books.h).
#include "ahead_books.h"
#include "blocking.h"
#include "blocks.h"
#include "math.h"
#include "placing.h"
#include "sampling.h"

namespace bitgrove {

constexpr int MOST_WARPS = AHEAD_THREADS / WARP;

// A thread's share of a sum over the block: what comes before it, and the whole.
struct Share {
  int64_t before, total;
};
BG_FN Share share_of(int64_t mine) {
  __shared__ int64_t partial[MOST_WARPS];
  __shared__ int64_t total;
  const int64_t through = block_scan(mine, partial);
  if (threadIdx.x == blockDim.x - 1) total = through;
  __syncthreads();
  return {through - mine, total};
}

// Two counts at once, the first of them below 2^31.
constexpr int SECOND_COUNT = 31;
BG_FN int64_t counts(int64_t first, int64_t second) { return second << SECOND_COUNT | first; }
BG_FN int64_t first_of(int64_t both) { return both & ((1ll << SECOND_COUNT) - 1); }
BG_FN int64_t second_of(int64_t both) { return both >> SECOND_COUNT; }

// The known splits by rank: best-first growth takes them in this order.
struct Ranked {
  double gain[MOST_AHEAD_LEAVES], least_gain[MOST_AHEAD_LEAVES];
  int n;

  // How many come before a node of that gain, whose parent has the rank `parent`: it is taken
  // before the first of those behind its parent that gain less.
  BG_FN int before(double mine, int parent) const {
    int place = parent + 1;
    if (parent >= 0 && mine > least_gain[parent]) {
      while (place < n && gain[place] >= mine) ++place;
      return place;
    }
    // The least gain on the way falls from rank to rank, and falls to a gain where it is least.
    int end = n;
    while (place < end) {
      const int middle = (place + end) / 2;
      if (least_gain[middle] < mine)
        end = middle;
      else
        place = middle + 1;
    }
    return place;
  }
};

// A key orders what was found by the place among the known, then by gain, then by number; gains
// that differ in their last bits alone count as equal, which costs a division in vain at worst.
// 0: no split.
constexpr int NUMBER_BITS = 10, PLACE_SHIFT = 54, LOST_BITS = 63 - (PLACE_SHIFT - NUMBER_BITS);
constexpr uint64_t NUMBER_MASK = (1 << NUMBER_BITS) - 1;
static_assert(AHEAD_THREADS <= 1 << NUMBER_BITS && MOST_AHEAD_LEAVES < 1 << (64 - PLACE_SHIFT));
BG_FN uint64_t key_of_place(int place) {
  return static_cast<uint64_t>(MOST_AHEAD_LEAVES - place) << PLACE_SHIFT;
}
BG_FN uint64_t key_of(int place, double gain, int number) {
  const auto bits = static_cast<uint64_t>(bits_of_double(gain)) >> LOST_BITS;
  return key_of_place(place) | bits << NUMBER_BITS | (NUMBER_MASK - static_cast<uint64_t>(number));
}
BG_FN int place_of(uint64_t key) {
  return MOST_AHEAD_LEAVES - static_cast<int>(key >> PLACE_SHIFT);
}
BG_FN int number_of(uint64_t key) { return static_cast<int>(NUMBER_MASK - (key & NUMBER_MASK)); }

// One key per thread, the largest first; those of threads from n on are not looked at.
BG_FN uint64_t sorted_key(uint64_t mine, int n, uint64_t* keys) {
  const int me = static_cast<int>(threadIdx.x);
  for (int size = 2; size / 2 < n; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      uint64_t other;
      if (step < WARP) {
        other = __shfl_xor_sync(ALL_LANES, mine, step);
      } else {
        keys[me] = mine;
        __syncthreads();
        other = keys[me ^ step];
        __syncthreads();
      }
      const bool wants_larger = ((me & size) == 0) == ((me & step) == 0);
      mine = (mine > other) == wants_larger ? mine : other;
    }
  return mine;
}

// How many of n keys, the largest first, are larger.
BG_FN int count_larger(const uint64_t* keys, int n, uint64_t key) {
  int low = 0;
  while (low < n) {
    const int middle = (low + n) / 2;
    if (keys[middle] > key)
      low = middle + 1;
    else
      n = middle;
  }
  return low;
}

// The first n_most of what was known and what was found now, by rank: that of each thread. n_now:
// how many there are.
BG_FN KnownSplit ranked_split(const AheadBooks& books, const AheadState& state, int n_new,
                              int n_most, int& n_now) {
  __shared__ Ranked ranked;
  __shared__ uint64_t keys[AHEAD_THREADS];
  __shared__ KnownSplit merged[MOST_AHEAD_LEAVES];
  __shared__ int n_found;
  const int me = static_cast<int>(threadIdx.x);
  KnownSplit known{};
  if (me < state.n_known) {
    known = books.known[me];
    ranked.gain[me] = known.gain;
    ranked.least_gain[me] = known.least_gain;
  }
  if (me == 0) ranked.n = state.n_known, n_found = 0;
  __syncthreads();
  uint64_t key = 0;
  if (me < n_new) {
    const double gain = books.found[state.n_found + me].gain;
    if (gain > 0.0) key = key_of(ranked.before(gain, books.waiting[me].rank), gain, me);
  }
  key = sorted_key(key, n_new, keys);
  keys[me] = key;
  __syncthreads();
  if (key != 0 && (me + 1 == n_new || keys[me + 1] == 0)) n_found = me + 1;
  const auto keep = [&](int rank, const KnownSplit& split) {
    if (rank < n_most) merged[rank] = split;
  };
  if (me < state.n_known) keep(me + count_larger(keys, n_new, key_of_place(me)), known);
  if (key != 0) {
    const AheadStep& step = books.waiting[number_of(key)];
    const double gain = books.found[state.n_found + number_of(key)].gain;
    const double least = gain < step.least_gain ? gain : step.least_gain;
    keep(place_of(key) + me, {gain, least, step.node, 0});
  }
  __syncthreads();
  const int n_all = state.n_known + n_found;
  n_now = n_all < n_most ? n_all : n_most;
  return me < n_now ? merged[me] : known;
}

// Tells the host the nodes that are complete: themselves first, then how many they are.
BG_FN void tell_host(const AheadBooks& books, const AheadState& state) {
  for (int id = state.n_told + static_cast<int>(threadIdx.x); id < state.n_complete;
       id += static_cast<int>(blockDim.x)) {
    const AheadNode& node = books.nodes[id];
    const bool is_searched = node.found >= 0;
    books.told[id] = {books.found[is_searched ? node.found : 0], node.n_rows, node.parent,
                      is_searched};
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x == 0)
    *static_cast<volatile uint64_t*>(books.progress) =
        static_cast<uint64_t>(state.is_done) << PROGRESS_DONE |
        static_cast<uint64_t>(state.n_rounds) << PROGRESS_ROUNDS |
        static_cast<uint64_t>(state.n_complete);
}

BG_FN Division division_of(const AheadNode& node, const SplitInfo& split,
                           const int64_t* missing_bin) {
  const int64_t end = node.begin + node.n_rows;
  return {node.begin,
          end,
          end,
          split.feature,
          split.bin,
          static_cast<int32_t>(missing_bin[split.feature]),
          split.default_left,
          split.left_bins};
}

// How many of the pending nodes: a share of them, but no more than there is room for.
BG_FN int64_t batch_size(int64_t n_pending, const AheadState& state, const AheadRules& rules) {
  const auto wanted = static_cast<int64_t>(round_up(rules.alpha * static_cast<double>(n_pending)));
  const int64_t slots = rules.n_slots - state.n_slots,
                pairs = (rules.most_nodes - state.n_nodes) / 2;
  int64_t n_batch = wanted < rules.most_batch ? wanted : rules.most_batch;
  n_batch = n_batch < slots ? n_batch : slots;
  return n_batch < pairs ? n_batch : pairs;
}

BG_FN int64_t block_rows_of(int64_t n_rows, const AheadRules& rules) {
  const int64_t rows =
      build_block_rows(n_rows, rules.n_tiles, rules.n_processors, static_cast<int>(rules.words));
  return rows < rules.most_block_rows ? rows : rules.most_block_rows;
}

BG_FN void plan_build(const AheadBooks& books, int64_t at, const AheadNode& node,
                      int64_t block_rows, int64_t first_block) {
  books.builds[at] = {node.begin, node.begin + node.n_rows, block_rows, node.slot, 0, 0, 0};
  books.first_build[at] = first_block;
}

// A search is planned at place `at` of the round; sibling: the slot whose sums are taken away from
// the node's first, or -1.
BG_FN void plan_search(const AheadBooks& books, AheadNode& node, const AheadStep& step, int sibling,
                       int64_t at, int n_found) {
  SearchNode planned = search_node(books.rules->growth, node.sums, node.n_rows, node.key);
  planned.slot = node.slot;
  planned.sibling = sibling;
  books.searched[at] = planned;
  books.waiting[at] = step;
  node.found = n_found + static_cast<int32_t>(at);
}

struct Child {
  int64_t begin, n_rows;
  GradientSums sums;
  int32_t slot;
};

BG_FN void add_child(const AheadBooks& books, int id, int parent_id, int side, const Child& made) {
  const AheadNode& parent = books.nodes[parent_id];
  books.nodes[id] = {made.begin,       made.n_rows, made.sums, child_key(parent.key, side),
                     parent.depth + 1, made.slot,   parent_id, -1};
}

// Makes the children of the nodes that were divided, and plans their histograms and searches.
__device__ void plan_children(const AheadBooks& books) {
  const AheadState state = *books.state;
  const int64_t n_batch = books.sizes->n_divided;
  const AheadRules& rules = *books.rules;
  const int me = static_cast<int>(threadIdx.x);
  int small = 0, large = 0;
  bool search_small = false, search_large = false;
  AheadStep step{};
  if (me < n_batch) {
    step = books.batch[me];
    const AheadNode& parent = books.nodes[step.node];
    const SplitInfo& split = books.found[parent.found];
    const int64_t n_left = books.left[me], n_right = parent.n_rows - n_left;
    const int32_t left = state.n_nodes + 2 * me, slot = state.n_slots + me;
    const bool left_is_small = n_left <= n_right;
    small = left_is_small ? left : left + 1;
    large = left_is_small ? left + 1 : left;
    const GradientSums to_left{split.left_grad, split.left_hess},
        to_right{parent.sums.grad - to_left.grad, parent.sums.hess - to_left.hess};
    add_child(books, left, step.node, 0,
              {parent.begin, n_left, to_left, left_is_small ? slot : parent.slot});
    add_child(books, left + 1, step.node, 1,
              {parent.begin + n_left, n_right, to_right, left_is_small ? parent.slot : slot});
    const bool search_left = rules.growth.may_split(parent.depth + 1, n_left, to_left.hess),
               search_right = rules.growth.may_split(parent.depth + 1, n_right, to_right.hess);
    search_small = left_is_small ? search_left : search_right;
    search_large = left_is_small ? search_right : search_left;
  }
  const bool is_built = search_small || search_large;
  AheadNode &small_node = books.nodes[small], &large_node = books.nodes[large];
  const int64_t n_rows = is_built ? small_node.n_rows : 0;
  const Share searches = share_of(counts(search_small + search_large, n_rows));
  int64_t at = first_of(searches.before);
  if (search_large)
    plan_search(books, large_node, {step.least_gain, large, step.rank}, small_node.slot, at++,
                state.n_found);
  if (search_small)
    plan_search(books, small_node, {step.least_gain, small, step.rank}, -1, at, state.n_found);
  const int64_t block_rows = block_rows_of(second_of(searches.total), rules);
  const Share built = share_of(counts(blocks_of(n_rows, block_rows), is_built));
  if (is_built)
    plan_build(books, second_of(built.before), small_node, block_rows, first_of(built.before));
  if (me > 0) return;
  const int64_t n_searched = first_of(searches.total), n_built = second_of(built.total);
  books.first_build[n_built] = first_of(built.total);
  RoundSizes& sizes = *books.sizes;
  sizes.n_built = n_built;
  sizes.build_blocks = first_of(built.total);
  sizes.n_searched = n_searched;
  sizes.search_blocks = search_blocks(rules.n_features, n_searched);
  sizes.first_found = state.n_found;
  books.state->n_nodes = state.n_nodes + static_cast<int32_t>(2 * n_batch);
  books.state->n_slots = state.n_slots + static_cast<int32_t>(n_batch);
}

}  // namespace bitgrove

using namespace bitgrove;

// A new tree: its root is built and searched first.
extern "C" __global__ void __launch_bounds__(THREADS)
    start_ahead(const __grid_constant__ AheadBooks books, const __grid_constant__ AheadRules rules,
                const __grid_constant__ AheadRoot root, int64_t* pool) {
  if (rules.slot_size <= MOST_CLEARED)
    for (int64_t bin = threadIdx.x; bin < rules.slot_size; bin += THREADS) pool[bin] = 0;
  if (threadIdx.x > 0) return;
  *books.rules = rules;
  AheadNode& node = books.nodes[0];
  const double infinity = double_of_bits(0x7FF0000000000000ll);
  node = {0, root.n_rows, root.sums, root.key, 0, 0, -1, -1};
  plan_search(books, node, {infinity, 0, -1}, -1, 0, 0);
  const int64_t block_rows = block_rows_of(root.n_rows, rules),
                n_blocks = blocks_of(root.n_rows, block_rows);
  plan_build(books, 0, node, block_rows, 0);
  books.first_build[1] = n_blocks;
  *books.sizes = {0, 0, 0, 1, n_blocks, 1, search_blocks(rules.n_features, 1), 0, 0};
  *books.state = {1, 0, 0, 1, 0, 0, 0, 0};
}

// Takes in what was found, and plans the divisions of the nodes that come next; none: it is done.
extern "C" __global__ void __launch_bounds__(AHEAD_THREADS)
    choose_nodes(const __grid_constant__ AheadBooks books) {
  wait_for_last_kernel();
  AheadState state = *books.state;
  if (state.is_done) return;
  const AheadRules& rules = *books.rules;
  const int me = static_cast<int>(threadIdx.x), n_new = static_cast<int>(books.sizes->n_searched),
            n_most = static_cast<int>(rules.growth.num_leaves - 1);
  int n_now;
  KnownSplit mine = ranked_split(books, state, n_new, n_most, n_now);
  const bool is_pending = me < n_now && !mine.is_divided;
  const Share share = share_of(is_pending);
  const int64_t n_batch = batch_size(share.total, state, rules), at = share.before;
  const bool is_chosen = is_pending && at < n_batch;
  if (is_chosen) mine.is_divided = 1;
  if (me < n_now) books.known[me] = mine;
  int64_t n_blocks = 0;
  bool is_cleared = false;
  if (is_chosen) {
    const AheadNode& node = books.nodes[mine.node];
    const Division division = division_of(node, books.found[node.found], books.missing_bin);
    books.batch[at] = {mine.least_gain, mine.node, me};
    books.divisions[at] = division;
    n_blocks = blocks_of(division.end - division.begin, PARTITION_ROWS);
    is_cleared = may_need_clearing(division, rules.slot_size);
  }
  const Share blocks = share_of(counts(n_blocks, is_cleared));
  if (is_chosen) books.first_division[at] = first_of(blocks.before);
  if (is_cleared)
    books.cleared[second_of(blocks.before)] = state.n_slots + static_cast<int32_t>(at);
  ++state.n_rounds;
  state.n_complete = state.n_nodes;
  state.n_found += n_new;
  state.n_known = n_now;
  state.is_done = n_batch == 0;
  if (me == 0) {
    books.first_division[n_batch] = first_of(blocks.total);
    *books.sizes = {n_batch, first_of(blocks.total), second_of(blocks.total), 0, 0, 0, 1, 0, 0};
    *books.state = state;
  }
  if (state.is_done) tell_host(books, state);
}

// Rows go to their places; two blocks before those plan what follows, and tell the host.
extern "C" __global__ void __launch_bounds__(PARTITION_THREADS, 3)
    place_and_plan(PLACE_ARGUMENTS, const __grid_constant__ AheadBooks books) {
  wait_for_last_kernel();
  if (blockIdx.x >= BOOK_BLOCKS)
    return place_rows(PLACE_NAMES, blockIdx.x - BOOK_BLOCKS, gridDim.x - BOOK_BLOCKS);
  if (books.sizes->n_divided == 0) return;
  if (blockIdx.x == 0) return plan_children(books);
  const AheadState state = *books.state;
  tell_host(books, state);
  if (threadIdx.x == 0) books.state->n_told = state.n_complete;
}
