// Histograms of a batch of nodes: block-local narrow accumulators, flushed into each node's total.
//
// A task is (node, tile of 32 columns, block of rows). Each thread adds its block, in chunks, into
// a local tile histogram of the plan's width, then adds the local one into the node's slot under
// the slot's lock; a column that features share (tile_layout.h) is divided among them there.
// The plan says how many rows surely fit the local width, whichever they are; the real sums are
// watched, so that more are added while they fit. All sums are integers, so order is free.
#include "tree/histogram.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "bindings/rooms.h"
#include "common/compiler.h"
#include "common/parallel.h"
#include "common/plan_checks.h"
#include "common/widths.h"
#include "sparse/sparse_histogram.h"

namespace bitgrove {
namespace {

constexpr int64_t PREFETCH_ROWS = 32;
constexpr int64_t CACHE_LINE = 64;
// Work worth calling a thread for: additions into bins, and subtractions of whole histograms.
constexpr int64_t UPDATES_PER_THREAD = 1 << 14;
constexpr int64_t SUBTRACTIONS_PER_THREAD = 2;
constexpr int64_t BLOCKS_PER_THREAD = 4, LEAST_BLOCK = 1024, MOST_BLOCK = 8192;
// The sums are looked at after each of so many parts of the rows that surely fit.
constexpr int64_t PARTS = 4;

struct Node : Build {
  uint8_t* sums;  // its slot
};

struct Task {
  int node, tile;
  int64_t begin, end;
};

// One lock and one "already written" mark per (node, tile).
struct Guard {
  SpinLock lock;
  bool written = false;
};

// From one column to the next in a local histogram. The cache line between two columns keeps equal
// codes of different columns out of the same cache set: where few codes are frequent they are hot.
template <class Local>
constexpr int64_t COLUMN_STRIDE = BINS_PER_FEATURE + CACHE_LINE / sizeof(typename Local::Sum);

template <class Local>
BG_FN void add_to(typename Local::Sum* local, const uint8_t* codes, int column,
                  typename Local::Sum value) {
  auto& sum = local[column * COLUMN_STRIDE<Local> + codes[column]];
  sum = Local::add(sum, value);
}

// Adds one row's value to its code of each column, from the last one down: straight code that is
// entered at `last`. The mask changes nothing; it saves the compiler a test.
template <class Local>
BG_FN void add_row(typename Local::Sum* local, const uint8_t* codes, int last,
                   typename Local::Sum value) {
  static_assert(TILE_FEATURES == 32);
#define ADD(COLUMN)                             \
  case COLUMN:                                  \
    add_to<Local>(local, codes, COLUMN, value); \
    [[fallthrough]];
#define ADD_FOUR(COLUMN) \
  ADD(COLUMN + 3)        \
  ADD(COLUMN + 2)        \
  ADD(COLUMN + 1)        \
  ADD(COLUMN + 0)
  switch (last & 31) {
    ADD_FOUR(28)
    ADD_FOUR(24)
    ADD_FOUR(20)
    ADD_FOUR(16)
    ADD_FOUR(12)
    ADD_FOUR(8)
    ADD_FOUR(4)
    ADD_FOUR(0)
    default:
      break;
  }
#undef ADD_FOUR
#undef ADD
}

// Largest |gradient sum| and hessian sum of a layout, as histograms.py plans with.
template <class Layout>
constexpr GradientSums MOST_SUMS{INT64_MAX >> (64 - Layout::half_bits),
                                 INT64_MAX >> (63 - std::min(Layout::half_bits, 63))};

// Tiles of up to so many columns have code of their own, without a jump for each row. Of more
// columns the jump is a small part, and of rows of 32 bits the additions are slower.
constexpr int OWN_COLUMNS = 16;

// Returns what the rows add to a sum at most: their |gradients| and hessians. Columns: how many the
// tile has, or 0: as many as it says.
template <class Row, class Local, int Columns>
GradientSums accumulate(const HistogramSource& source, const Task& task,
                        typename Local::Sum* local) {
  using Int = std::conditional_t<Row::half_bits <= 16, int32_t, int64_t>;
  const int last_column = TileView::features_of(task.tile, source.tiles.n_features) - 1;
  const int64_t stride = Columns > 0 ? TileView::stride_of(0, Columns)
                                     : TileView::stride_of(task.tile, source.tiles.n_features);
  const uint8_t* tile = source.tiles.rows_of(task.tile);
  const auto* packed_rows = static_cast<const typename Row::Sum*>(source.packed_rows);
  const int32_t* rows = source.rows;
  const int64_t last = source.n_listed - 1;
  Int abs_grad = 0, hess = 0;
  for (int64_t i = task.begin; i < task.end; ++i) {
    const int64_t row = rows[i];
    const int64_t ahead = rows[std::min(i + PREFETCH_ROWS, last)];
    prefetch(tile + ahead * stride);
    prefetch(packed_rows + ahead);
    const typename Row::Sum packed = packed_rows[row];
    const auto grad = static_cast<Int>(Row::grad(packed));
    abs_grad += grad < 0 ? -grad : grad;
    hess += static_cast<Int>(Row::hess(packed));
    add_row<Local>(local, tile + row * stride, Columns > 0 ? Columns - 1 : last_column,
                   convert<Local, Row>(packed));
  }
  return {abs_grad, hess};
}

// Chooses the code for the tile's columns.
template <class Row, class Local, int Columns = OWN_COLUMNS>
GradientSums accumulate_tile(const HistogramSource& source, const Task& task,
                             typename Local::Sum* local) {
  if constexpr (Columns > 0 && std::is_integral_v<typename Local::Sum> && Row::half_bits <= 8 &&
                Local::half_bits <= 16) {
    if (TileView::features_of(task.tile, source.tiles.n_features) != Columns)
      return accumulate_tile<Row, Local, Columns - 1>(source, task, local);
    return accumulate<Row, Local, Columns>(source, task, local);
  } else {
    return accumulate<Row, Local, 0>(source, task, local);
  }
}

// to += from, or to = from where the slot still holds another node's sums.
template <class From, class Total>
BG_FN void move_bins(const typename From::Sum* BG_RESTRICT from,
                     typename Total::Sum* BG_RESTRICT to, int64_t n_bins, bool add) {
  if (add)
    for (int64_t b = 0; b < n_bins; ++b) to[b] = Total::add(to[b], convert<Total, From>(from[b]));
  else
    for (int64_t b = 0; b < n_bins; ++b) to[b] = convert<Total, From>(from[b]);
}

// Sums of n_bins runs of n_rest codes: each run's own, and what is left when the bins are summed
// out.
template <class Total>
BG_FN void sum_out(const typename Total::Sum* joint, int64_t n_bins, int64_t n_rest,
                   typename Total::Sum* marginal, typename Total::Sum* rest) {
  using Sum = typename Total::Sum;
  std::fill_n(rest, n_rest, Sum{});
  for (int64_t b = 0; b < n_bins; ++b, joint += n_rest) {
    Sum sum{};
    for (int64_t i = 0; i < n_rest; ++i) {
      sum = Total::add(sum, joint[i]);
      rest[i] = Total::add(rest[i], joint[i]);
    }
    marginal[b] = sum;
  }
}

// Divides a code's sums, which are used up, among its features, the most significant first.
template <class Total>
BG_FN void move_marginals(const TileCode& code, typename Total::Sum* joint,
                          typename Total::Sum* total, bool add) {
  alignas(CACHE_LINE) typename Total::Sum buffers[2][BINS_PER_FEATURE];
  auto *rest = buffers[0], *marginal = buffers[1];
  int64_t n_codes = code.n_codes;
  const TileMember* const last = &code.members.back();
  for (const TileMember* member = code.members.data(); member < last; ++member) {
    n_codes /= member->n_bins;
    sum_out<Total>(joint, member->n_bins, n_codes, marginal, rest);
    move_bins<Total, Total>(marginal, total + member->bin_offset, member->n_bins, add);
    std::swap(joint, rest);
  }
  move_bins<Total, Total>(joint, total + last->bin_offset, last->n_bins, add);
}

template <class Total>
BG_FN void move_all_codes(const TileColumn& column, typename Total::Sum* bytes,
                          typename Total::Sum* total, bool add) {
  if (column.codes.size() == 1) return move_marginals<Total>(column.codes[0], bytes, total, add);
  alignas(CACHE_LINE) typename Total::Sum joint[BINS_PER_FEATURE];
  for (const TileCode& code : column.codes) {
    std::fill_n(joint, code.n_codes, typename Total::Sum{});
    for (int b = 0; b < column.n_bytes; ++b)
      joint[code.of_byte[b]] = Total::add(joint[code.of_byte[b]], bytes[b]);
    move_marginals<Total>(code, joint, total, add);
  }
}

// Divides the sums of a shared column's bytes, which are used up, among its codes.
template <class Total>
void move_codes(const TileColumn& column, typename Total::Sum* bytes, typename Total::Sum* total,
                bool add, Simd simd) {
  with_simd<Simd::avx2>(simd, [&] { move_all_codes<Total>(column, bytes, total, add); });
}

// Moves the sums of a column's bytes into the slot. What features of a shared column get are sums
// over the node's rows, which the total's width holds: bytes become totals before they are added
// up. Compiled for an instruction set are the loops over bins alone.
template <class From, class Total>
void move_column(const TileColumn& column, const typename From::Sum* from, uint8_t* slot, bool add,
                 Simd simd) {
  alignas(CACHE_LINE) typename Total::Sum bytes[BINS_PER_FEATURE];
  auto* total = reinterpret_cast<typename Total::Sum*>(slot);
  const bool is_shared = column.codes.size() > 1 || column.codes[0].members.size() > 1;
  auto* to = is_shared ? bytes : total + column.codes[0].members[0].bin_offset;
  with_simd<Simd::avx2>(simd, [from, to, n = column.n_bytes, add_here = add && !is_shared] {
    move_bins<From, Total>(from, to, n, add_here);
  });
  if (is_shared) move_codes<Total>(column, bytes, total, add, simd);
}

// Moves the local histogram into the slot and zeroes it. The ablation's sums are joined first.
template <class Local>
void flush(const HistogramSource& source, const Task& task, const Node& node,
           typename Local::Sum* local, Guard& guard, Simd simd) {
  using Joined = Packed<Local::half_bits>;
  typename Joined::Sum joined[BINS_PER_FEATURE];
  const TileColumn* columns = source.layout->columns().data() + task.tile * TILE_FEATURES;
  const int n_columns = TileView::features_of(task.tile, source.tiles.n_features);
  guard.lock.lock();
  const bool add = guard.written;
  guard.written = true;
  for (int c = 0; c < n_columns; ++c) {
    const TileColumn& column = columns[c];
    typename Local::Sum* sums = local + c * COLUMN_STRIDE<Local>;
    const typename Joined::Sum* from = joined;
    if constexpr (std::is_same_v<typename Local::Sum, typename Joined::Sum>)
      from = sums;
    else
      for (int b = 0; b < column.n_bytes; ++b) joined[b] = convert<Joined, Local>(sums[b]);
    visit_total_width(node.total_width, [&](auto total) {
      if constexpr (decltype(total)::half_bits >= Local::half_bits)
        move_column<Joined, decltype(total)>(column, from, node.sums, add, simd);
    });
    std::fill_n(sums, column.n_bytes, typename Local::Sum{});
  }
  guard.lock.unlock();
}

// Adds a task's rows in parts, and flushes where another part might not fit any more.
template <class Row, class Local, class Flush>
void add_rows(const HistogramSource& source, const Task& task, int64_t block_rows,
              typename Local::Sum* local, const Flush& flush_local) {
  constexpr GradientSums MOST = MOST_SUMS<Local>;
  // Of the sums that leave room for another part; of fewer rows than parts, each is a part alone.
  const int64_t parts_before = block_rows < PARTS ? 0 : PARTS - 1;
  const GradientSums room{MOST.grad / PARTS * parts_before, MOST.hess / PARTS * parts_before};
  const int64_t part_rows = std::max<int64_t>(1, block_rows / PARTS);
  GradientSums used{0, 0};
  for (int64_t begin = task.begin; begin < task.end; begin += part_rows) {
    if (used.grad > room.grad || used.hess > room.hess) {
      flush_local();
      used = {0, 0};
    }
    const Task part{task.node, task.tile, begin, std::min(begin + part_rows, task.end)};
    const GradientSums more = accumulate_tile<Row, Local>(source, part, local);
    used = {used.grad + more.grad, used.hess + more.hess};
  }
  flush_local();
}

template <class Local>
void run_task(const HistogramSource& source, const Task& task, const Node& node, void* buffer,
              Guard& guard, Simd simd) {
  auto* local = static_cast<typename Local::Sum*>(buffer);
  const auto flush_local = [&] { flush<Local>(source, task, node, local, guard, simd); };
  visit_row_within<Local>(source.row_width, [&](auto row) {
    add_rows<decltype(row), Local>(source, task, node.block_rows, local, flush_local);
  });
}

// Blocks long enough that adding costs more than flushing, short enough to keep all threads busy.
std::vector<Task> plan_tasks(const std::vector<Node>& nodes, int n_tiles, int n_threads) {
  int64_t n_rows = 0;
  for (const Node& node : nodes) n_rows += node.end - node.begin;
  const int64_t block =
      std::clamp(n_rows / (n_threads * BLOCKS_PER_THREAD), LEAST_BLOCK, MOST_BLOCK);
  std::vector<Task> tasks;
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n)
    for (int tile = 0; tile < n_tiles; ++tile)
      for (int64_t begin = nodes[n].begin; begin < nodes[n].end; begin += block)
        tasks.push_back({n, tile, begin, std::min(begin + block, nodes[n].end)});
  return tasks;
}

// A thread's tile histogram, zero between tasks; sized for the widest accumulator.
void* local_buffer() {
  struct alignas(64) Buffer {
    uint8_t bytes[TILE_FEATURES * COLUMN_STRIDE<Packed<64>> * sizeof(Packed<64>::Sum)];
  };
  thread_local std::unique_ptr<Buffer> buffer = std::make_unique<Buffer>();
  return buffer->bytes;
}

std::vector<Node> nodes_of(std::span<const Build> plan, const PoolView& pool,
                           const HistogramSource& source) {
  const int64_t n_bins = source.layout->n_bins();
  std::vector<Node> nodes;
  for (const Build& step : plan) {
    check_build(step, source.n_listed);
    require(is_width(step.local_width) && step.local_width <= step.total_width, "bad widths");
    require(step.begin == step.end || source.row_width <= step.local_width,
            "rows are wider than their sums");
    nodes.push_back({step, pool.slot(step.slot, n_bins, step.total_width)});
  }
  return nodes;
}

template <class Parent, class Child, class Out>
void subtract_slot(uint8_t* parent, const uint8_t* child, int64_t begin, int64_t end) {
  // In place with narrowing: read a chunk whole before writing it, the writes trail the reads.
  constexpr int64_t CHUNK = 64;
  typename Out::Sum chunk[CHUNK];
  const auto* p = reinterpret_cast<const typename Parent::Sum*>(parent);
  const auto* c = reinterpret_cast<const typename Child::Sum*>(child);
  for (int64_t i = begin; i < end; i += CHUNK) {
    const int64_t n = std::min(CHUNK, end - i);
    for (int64_t j = 0; j < n; ++j)
      chunk[j] = convert<Out, Parent>(Parent::subtract(p[i + j], convert<Parent, Child>(c[i + j])));
    std::memcpy(parent + i * sizeof(typename Out::Sum), chunk, n * sizeof(typename Out::Sum));
  }
}

void subtract_step(const Subtraction& step, const PoolView& pool, BinRange bins, Simd simd) {
  uint8_t* parent = pool.data + step.parent_slot * pool.slot_bytes;
  const uint8_t* built = pool.data + step.built_slot * pool.slot_bytes;
  visit_total_width(step.parent_width, [&](auto p) {
    visit_total_width(step.built_width, [&](auto c) {
      visit_total_width(step.out_width, [&](auto o) {
        using P = decltype(p);
        using C = decltype(c);
        using O = decltype(o);
        if constexpr (C::half_bits <= P::half_bits && O::half_bits <= P::half_bits)
          with_simd<Simd::avx2>(
              simd, [&] { subtract_slot<P, C, O>(parent, built, bins.first, bins.last); });
      });
    });
  });
}

}  // namespace

uint8_t* PoolView::slot(int64_t index, int64_t n_bins, int width) const {
  check_slot(index, n_slots);
  require(is_total_width(width) && n_bins * (width / 4) <= slot_bytes, "bad widths");
  return data + index * slot_bytes;
}

void build_histograms(std::span<const Build> plan, const PoolView& pool,
                      const HistogramSource& source, int n_threads, Simd simd) {
  const std::vector<Node> nodes = nodes_of(plan, pool, source);
  if (source.sparse) build_sparse(plan, pool, source, n_threads);
  const int n_tiles = TileView::n_tiles(source.tiles.n_features);
  std::vector<Guard> guards(nodes.size() * n_tiles);
  int64_t n_updates = 0;
  for (const Node& node : nodes) n_updates += (node.end - node.begin) * source.tiles.n_features;
  n_threads = threads_for(n_updates, UPDATES_PER_THREAD, n_threads);
  const std::vector<Task> tasks = plan_tasks(nodes, n_tiles, n_threads);
  parallel_tasks(static_cast<int64_t>(tasks.size()), n_threads, [&](int64_t t) {
    const Task& task = tasks[t];
    const Node& node = nodes[task.node];
    Guard& guard = guards[task.node * n_tiles + task.tile];
    visit_local_width(node.local_width, source.packed, [&](auto local) {
      run_task<decltype(local)>(source, task, node, local_buffer(), guard, simd);
    });
  });
  for (const Node& node : nodes)  // a rank may hold no row of a node
    if (node.begin == node.end)
      std::fill_n(node.sums, source.layout->n_bins() * (node.total_width / 4), uint8_t{0});
}

void subtract_histograms(std::span<const Subtraction> plan, const PoolView& pool, BinRange bins,
                         int n_threads, Simd simd) {
  for (const Subtraction& step : plan) {
    pool.slot(step.parent_slot, bins.last, step.parent_width);
    pool.slot(step.built_slot, bins.last, step.built_width);
    require(0 <= bins.first && bins.first <= bins.last, "bad range of bins");
    require(is_total_width(step.out_width) && step.built_width <= step.parent_width &&
                step.out_width <= step.parent_width,
            "bad widths");
  }
  parallel_tasks(
      static_cast<int64_t>(plan.size()), n_threads,
      [&](int64_t i) { subtract_step(plan[i], pool, bins, simd); }, SUBTRACTIONS_PER_THREAD);
}

}  // namespace bitgrove
