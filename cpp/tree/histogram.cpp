// Histograms of a batch of nodes: block-local narrow accumulators, flushed into each node's total.
//
// A task is (node, tile of 32 columns, block of rows). Each thread adds its block into a local tile
// histogram of the plan's width (accumulate.h), then adds the local one into the node's slot under
// the slot's lock; a column that features share (tile_layout.h) is divided among them there.
// All sums are integers, so order is free.
#include "tree/histogram.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "bindings/rooms.h"
#include "common/compiler.h"
#include "common/parallel.h"
#include "common/plan_checks.h"
#include "common/widths.h"
#include "sparse/sparse_histogram.h"
#include "tree/accumulate.h"

namespace bitgrove {
namespace {

// Work worth calling a thread for: additions into bins, and subtractions of whole histograms.
constexpr int64_t UPDATES_PER_THREAD = 1 << 14;
constexpr int64_t SUBTRACTIONS_PER_THREAD = 2;
constexpr int64_t BLOCKS_PER_THREAD = 2, LEAST_BLOCK = 1024, MOST_BLOCK = 8192;

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

// Moves the local histogram of some columns into the slot, or adds it, and zeroes it. The
// ablation's sums are joined first.
template <class Local>
void flush(const HistogramSource& source, const TileColumns& columns, const Node& node,
           typename Local::Sum* local, bool add, Simd simd) {
  using Joined = Packed<Local::half_bits>;
  typename Joined::Sum joined[BINS_PER_FEATURE];
  const TileColumn* column = source.layout->columns().data() + columns.first_of_all();
  for (int c = 0; c < columns.n(); ++c, ++column) {
    typename Local::Sum* sums = local + c * COLUMN_STRIDE<Local>;
    const typename Joined::Sum* from = joined;
    if constexpr (std::is_same_v<typename Local::Sum, typename Joined::Sum>)
      from = sums;
    else
      for (int b = 0; b < column->n_bytes; ++b) joined[b] = convert<Joined, Local>(sums[b]);
    visit_total_width(node.total_width, [&](auto total) {
      if constexpr (decltype(total)::half_bits >= Local::half_bits)
        move_column<Joined, decltype(total)>(*column, from, node.sums, add, simd);
    });
    std::fill_n(sums, column->n_bytes, typename Local::Sum{});
  }
}

// A thread's tile histogram, zero between tasks; sized for the widest accumulator.
void* local_buffer() {
  struct alignas(64) Buffer {
    uint8_t bytes[TILE_FEATURES * COLUMN_STRIDE<Packed<64>> * sizeof(Packed<64>::Sum)];
  };
  thread_local std::unique_ptr<Buffer> buffer = std::make_unique<Buffer>();
  return buffer->bytes;
}

// Adds rows of a node into its slot, when it is this thread's turn: to what others, or the same
// one, moved there before. Not inlined: one copy for shared columns and for a thread's own.
BG_NOINLINE void add_span(const HistogramSource& source, const RowSpan& span, const Node& node,
                          Simd simd, Guard& guard) {
  visit_local_width(node.local_width, source.packed, [&](auto layout) {
    using Local = decltype(layout);
    auto* local = static_cast<typename Local::Sum*>(local_buffer());
    const auto flush_local = [&] {
      guard.lock.lock();
      flush<Local>(source, span.columns, node, local, guard.written, simd);
      guard.written = true;
      guard.lock.unlock();
    };
    if (span.begin == span.end) return flush_local();
    visit_row_within<Local>(source.row_width, [&](auto row) {
      add_rows<decltype(row), Local>(source, span, node.block_rows, local, flush_local);
    });
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

Node node_of(const Build& step, const PoolView& pool, const HistogramSource& source) {
  check_build(step, source.n_listed);
  require(is_width(step.local_width) && step.local_width <= step.total_width, "bad widths");
  require(step.begin == step.end || source.row_width <= step.local_width,
          "rows are wider than their sums");
  return {step, pool.slot(step.slot, source.layout->n_bins(), step.total_width)};
}

template <class Parent, class Child, class Out>
void subtract_bins(const uint8_t* parent, const uint8_t* child, uint8_t* out, BinRange bins) {
  const auto* p = reinterpret_cast<const typename Parent::Sum*>(parent);
  const auto* c = reinterpret_cast<const typename Child::Sum*>(child);
  auto* o = reinterpret_cast<typename Out::Sum*>(out);
  for (int64_t i = bins.first; i < bins.last; ++i)
    o[i] = convert<Out, Parent>(Parent::subtract(p[i], convert<Parent, Child>(c[i])));
}

}  // namespace

uint8_t* PoolView::slot(int64_t index, int64_t n_bins, int width) const {
  check_slot(index, n_slots);
  require(is_total_width(width) && n_bins * (width / 4) <= slot_bytes, "bad widths");
  return data + index * slot_bytes;
}

void check_subtraction(const Subtraction& step, const PoolView& pool, int64_t n_bins) {
  pool.slot(step.parent_slot, n_bins, step.parent_width);
  pool.slot(step.built_slot, n_bins, step.built_width);
  pool.slot(step.out_slot, n_bins, step.out_width);
  require(step.built_width <= step.parent_width && step.out_width <= step.parent_width,
          "bad widths");
  require(step.out_slot != step.built_slot &&
              (step.out_slot != step.parent_slot || step.out_width == step.parent_width),
          "what is left has no place of its own");
}

void build_columns(const Build& step, const TileColumns& columns, const PoolView& pool,
                   const HistogramSource& source, Simd simd) {
  Guard guard;  // of its own: nobody else adds to these columns
  add_span(source, {columns, step.begin, step.end}, node_of(step, pool, source), simd, guard);
}

void build_histograms(std::span<const Build> plan, const PoolView& pool,
                      const HistogramSource& source, int n_threads, Simd simd) {
  std::vector<Node> nodes;
  int64_t n_updates = 0;
  for (const Build& step : plan) {
    nodes.push_back(node_of(step, pool, source));
    n_updates += (step.end - step.begin) * source.tiles.n_features;
  }
  if (source.sparse) build_sparse(plan, pool, source, n_threads);
  const int n_tiles = TileView::n_tiles(source.tiles.n_features);
  std::vector<Guard> guards(nodes.size() * n_tiles);
  n_threads = threads_for(n_updates, UPDATES_PER_THREAD, n_threads);
  const std::vector<Task> tasks = plan_tasks(nodes, n_tiles, n_threads);
  parallel_tasks(static_cast<int64_t>(tasks.size()), n_threads, [&](int64_t t) {
    const Task& task = tasks[t];
    const TileColumns columns{task.tile, 0,
                              TileView::features_of(task.tile, source.tiles.n_features)};
    add_span(source, {columns, task.begin, task.end}, nodes[task.node], simd,
             guards[task.node * n_tiles + task.tile]);
  });
  for (const Node& node : nodes)  // a rank may hold no row of a node
    if (node.begin == node.end)
      std::fill_n(node.sums, source.layout->n_bins() * (node.total_width / 4), uint8_t{0});
}

void subtract_histogram(const Subtraction& step, const PoolView& pool, BinRange bins, Simd simd) {
  const auto slot = [&](int64_t index) { return pool.data + index * pool.slot_bytes; };
  const uint8_t *parent = slot(step.parent_slot), *built = slot(step.built_slot);
  uint8_t* out = slot(step.out_slot);
  visit_total_width(step.parent_width, [&](auto p) {
    visit_total_width(step.built_width, [&](auto c) {
      visit_total_width(step.out_width, [&](auto o) {
        using P = decltype(p);
        using C = decltype(c);
        using O = decltype(o);
        if constexpr (C::half_bits <= P::half_bits && O::half_bits <= P::half_bits)
          with_simd<Simd::avx2>(simd, [&] { subtract_bins<P, C, O>(parent, built, out, bins); });
      });
    });
  });
}

void subtract_histograms(std::span<const Subtraction> plan, const PoolView& pool, BinRange bins,
                         int n_threads, Simd simd) {
  require(0 <= bins.first && bins.first <= bins.last, "bad range of bins");
  for (const Subtraction& step : plan) check_subtraction(step, pool, bins.last);
  parallel_tasks(
      static_cast<int64_t>(plan.size()), n_threads,
      [&](int64_t i) { subtract_histogram(plan[i], pool, bins, simd); }, SUBTRACTIONS_PER_THREAD);
}

}  // namespace bitgrove
