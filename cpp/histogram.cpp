// Histograms of a batch of nodes: block-local narrow accumulators, flushed into each node's total.
//
// A task is (node, tile of 32 features, block of rows). Each thread adds its block into a local
// tile histogram in the width the planner proved safe for that many rows, then adds the local
// one into the node's slot under the slot's lock. All sums are integers, so order is free.
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "layouts.h"
#include "parallel.h"
#include "rooms.h"
#include "tiles.h"
#include "widths.h"

namespace bitgrove {
namespace {

constexpr int64_t PREFETCH_ROWS = 32;
// Work worth waking a thread for: additions into bins, and subtractions of whole histograms.
constexpr int64_t UPDATES_PER_THREAD = 1 << 16;
constexpr int64_t SUBTRACTIONS_PER_THREAD = 8;
constexpr int64_t BLOCKS_PER_THREAD = 4, LEAST_BLOCK = 1024;

struct Node {
  int64_t begin, end;
  uint8_t* slot;
  int local_width, total_width;
  int64_t block_rows;
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

struct Source {
  TileView tiles;
  const int64_t* bin_offset;
  const int32_t* rows;
  const void* packed_rows;
  int row_width;
  bool packed;
};

// Adds one row's value to its bin of each of n features.
template <class Local>
BG_FN void add_row(typename Local::Sum* feature, const uint8_t* bins, int n, typename Local::Sum value) {
  for (int f = 0; f < n; ++f, feature += BINS_PER_FEATURE) feature[bins[f]] = Local::add(feature[bins[f]], value);
}

// Groups of four features, known at compile time so that a row is straight code; then the rest.
template <class Row, class Local, int Groups>
void accumulate(const Source& source, const Task& task, typename Local::Sum* local) {
  const int n_rest = TileView::features_of(task.tile, source.tiles.n_features) - 4 * Groups;
  const int64_t stride = TileView::stride_of(task.tile, source.tiles.n_features);
  const uint8_t* tile = source.tiles.rows_of(task.tile);
  const auto* packed_rows = static_cast<const typename Row::Sum*>(source.packed_rows);
  const int32_t* rows = source.rows;
  const int64_t last = task.end - 1;
  for (int64_t i = task.begin; i < task.end; ++i) {
    const int64_t row = rows[i];
    const int64_t ahead = rows[std::min(i + PREFETCH_ROWS, last)];
    __builtin_prefetch(tile + ahead * stride);
    __builtin_prefetch(packed_rows + ahead);
    const uint8_t* bins = tile + row * stride;
    const typename Local::Sum value = convert<Local, Row>(packed_rows[row]);
#pragma GCC unroll 8
    for (int g = 0; g < Groups; ++g) add_row<Local>(local + 4 * g * BINS_PER_FEATURE, bins + 4 * g, 4, value);
    add_row<Local>(local + 4 * Groups * BINS_PER_FEATURE, bins + 4 * Groups, n_rest, value);
  }
}

template <class Row, class Local, int Groups = TILE_FEATURES / 4>
void accumulate_tile(const Source& source, const Task& task, typename Local::Sum* local) {
  const int n_groups = TileView::features_of(task.tile, source.tiles.n_features) / 4;
  if constexpr (Groups > 0)
    if (n_groups < Groups) return accumulate_tile<Row, Local, Groups - 1>(source, task, local);
  accumulate<Row, Local, Groups>(source, task, local);
}

// Moves the local histogram into the slot and leaves it zeroed for the next task.
template <class Local, class Total>
void flush(const Source& source, const Task& task, typename Local::Sum* local, uint8_t* slot, Guard& guard) {
  const int first = task.tile * TILE_FEATURES;
  const int n_features = TileView::features_of(task.tile, source.tiles.n_features);
  auto* total = reinterpret_cast<typename Total::Sum*>(slot);
  guard.lock.lock();
  const bool add = guard.written;
  guard.written = true;
  for (int f = 0; f < n_features; ++f) {
    const int64_t offset = source.bin_offset[first + f];
    const int64_t n_bins = source.bin_offset[first + f + 1] - offset;
    typename Local::Sum* from = local + f * BINS_PER_FEATURE;
    typename Total::Sum* to = total + offset;
    if (add)
      for (int64_t b = 0; b < n_bins; ++b) to[b] = Total::add(to[b], convert<Total, Local>(from[b]));
    else
      for (int64_t b = 0; b < n_bins; ++b) to[b] = convert<Total, Local>(from[b]);
    std::fill_n(from, n_bins, typename Local::Sum{});
  }
  guard.lock.unlock();
}

template <class Local>
void run_task(const Source& source, const Task& task, const Node& node, void* buffer, Guard& guard, Simd simd) {
  auto* local = static_cast<typename Local::Sum*>(buffer);
  switch (source.row_width) {
    case 8: accumulate_tile<Packed<8>, Local>(source, task, local); break;
    case 16: accumulate_tile<Packed<16>, Local>(source, task, local); break;
    default: accumulate_tile<Packed<32>, Local>(source, task, local); break;
  }
  visit_width(node.total_width, source.packed, [&](auto total) {
    using Total = decltype(total);
    if constexpr (Total::half_bits >= Local::half_bits)
      with_simd(simd, [&] { flush<Local, Total>(source, task, local, node.slot, guard); });
  });
}

// Blocks are at most as long as the plan allows, and short enough to keep all threads busy.
std::vector<Task> plan_tasks(const std::vector<Node>& nodes, int n_features, int n_threads) {
  int64_t n_rows = 0;
  for (const Node& node : nodes) n_rows += node.end - node.begin;
  const int64_t share = std::max(LEAST_BLOCK, n_rows / (n_threads * BLOCKS_PER_THREAD));
  std::vector<Task> tasks;
  for (int n = 0; n < static_cast<int>(nodes.size()); ++n) {
    const int64_t block = std::min(nodes[n].block_rows, share);
    for (int tile = 0; tile < TileView::n_tiles(n_features); ++tile)
      for (int64_t begin = nodes[n].begin; begin < nodes[n].end; begin += block)
        tasks.push_back({n, tile, begin, std::min(begin + block, nodes[n].end)});
  }
  return tasks;
}

// A thread's tile histogram, zero between tasks; sized for the widest accumulator.
void* local_buffer() {
  struct alignas(64) Buffer {
    uint8_t bytes[TILE_FEATURES * BINS_PER_FEATURE * sizeof(Packed<64>::Sum)];
  };
  thread_local std::unique_ptr<Buffer> buffer = std::make_unique<Buffer>();
  return buffer->bytes;
}

void build(const std::vector<Node>& nodes, const Source& source, int64_t slot_bins, int n_threads, Simd simd) {
  const int n_tiles = TileView::n_tiles(source.tiles.n_features);
  std::vector<Guard> guards(nodes.size() * n_tiles);
  int64_t n_updates = 0;
  for (const Node& node : nodes) n_updates += (node.end - node.begin) * source.tiles.n_features;
  if (n_updates < 2 * UPDATES_PER_THREAD) n_threads = 1;
  const std::vector<Task> tasks = plan_tasks(nodes, source.tiles.n_features, n_threads);
  parallel_tasks(static_cast<int64_t>(tasks.size()), n_threads, [&](int64_t t) {
    const Task& task = tasks[t];
    const Node& node = nodes[task.node];
    Guard& guard = guards[task.node * n_tiles + task.tile];
    visit_width(node.local_width, source.packed, [&](auto local) {
      run_task<decltype(local)>(source, task, node, local_buffer(), guard, simd);
    });
  });
  for (const Node& node : nodes)  // a rank may hold no row of a node
    if (node.begin == node.end)
      visit_width(node.total_width, source.packed, [&](auto total) {
        std::fill_n(reinterpret_cast<typename decltype(total)::Sum*>(node.slot), slot_bins,
                    typename decltype(total)::Sum{});
      });
}

// plan: one row per node: begin, end, slot, local width, total width, rows per block.
void build_histograms(Matrix<uint8_t> pool, Vector<const uint8_t> tiles, int64_t n_rows,
                      Vector<const int64_t> bin_offset, Vector<const int32_t> rows,
                      nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu, nb::ro> packed_rows,
                      Matrix<const int64_t> plan, bool packed, int n_threads, int simd) {
  const int n_features = static_cast<int>(bin_offset.shape(0)) - 1;
  require(plan.shape(1) == 6, "plan must have 6 columns");
  require(static_cast<int64_t>(tiles.shape(0)) >= TileView::n_bytes(n_rows, n_features), "tiles too small");
  require(static_cast<int64_t>(packed_rows.shape(0)) == n_rows, "packed rows differ in length");
  const int64_t n_bins = bin_offset(n_features), n_listed = rows.shape(0);
  std::vector<Node> nodes;
  for (size_t i = 0; i < plan.shape(0); ++i) {
    Node node{plan(i, 0), plan(i, 1), nullptr, static_cast<int>(plan(i, 3)), static_cast<int>(plan(i, 4)), plan(i, 5)};
    const int64_t slot = plan(i, 2);
    require(slot >= 0 && slot < static_cast<int64_t>(pool.shape(0)), "slot out of range");
    require(0 <= node.begin && node.begin <= node.end && node.end <= n_listed && node.block_rows > 0, "bad node range");
    require(is_width(node.local_width) && is_width(node.total_width) && node.local_width <= node.total_width &&
            n_bins * (node.total_width / 4) <= static_cast<int64_t>(pool.shape(1)), "bad widths");
    node.slot = pool.data() + slot * pool.shape(1);
    nodes.push_back(node);
  }
  const int row_width = static_cast<int>(packed_rows.itemsize()) * 4;
  require(row_width == 8 || row_width == 16 || row_width == 32, "packed rows of unknown width");
  const Source source{{tiles.data(), n_rows, n_features}, bin_offset.data(), rows.data(), packed_rows.data(), row_width, packed};
  nb::gil_scoped_release release;
  build(nodes, source, n_bins, n_threads, static_cast<Simd>(simd));
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
    __builtin_memcpy(parent + i * sizeof(typename Out::Sum), chunk, n * sizeof(typename Out::Sum));
  }
}

// plan: one row per pair: parent slot (becomes the larger child), built slot, parent width,
// built width, out width. Only the bins [begin, end) are touched.
void subtract_histograms(Matrix<uint8_t> pool, Matrix<const int64_t> plan, int64_t begin, int64_t end,
                         bool packed, int n_threads, int simd) {
  require(plan.shape(1) == 5, "plan must have 5 columns");
  for (size_t i = 0; i < plan.shape(0); ++i) {
    require(plan(i, 0) >= 0 && plan(i, 0) < static_cast<int64_t>(pool.shape(0)) && plan(i, 1) >= 0 &&
            plan(i, 1) < static_cast<int64_t>(pool.shape(0)), "slot out of range");
    require(is_width(plan(i, 2)) && is_width(plan(i, 3)) && is_width(plan(i, 4)) && plan(i, 3) <= plan(i, 2) &&
            plan(i, 4) <= plan(i, 2) && end * (plan(i, 2) / 4) <= static_cast<int64_t>(pool.shape(1)), "bad widths");
  }
  uint8_t* data = pool.data();
  const int64_t slot_bytes = pool.shape(1);
  const int64_t* steps = plan.data();
  nb::gil_scoped_release release;
  parallel_tasks(plan.shape(0), n_threads, [&](int64_t i) {
    const int64_t* step = steps + 5 * i;
    uint8_t* parent = data + step[0] * slot_bytes;
    const uint8_t* child = data + step[1] * slot_bytes;
    visit_width(static_cast<int>(step[2]), packed, [&](auto p) {
      visit_width(static_cast<int>(step[3]), packed, [&](auto c) {
        visit_width(static_cast<int>(step[4]), packed, [&](auto o) {
          using P = decltype(p);
          using C = decltype(c);
          using O = decltype(o);
          if constexpr (P::half_bits >= 16 && C::half_bits >= 16 && O::half_bits >= 16 &&
                        C::half_bits <= P::half_bits && O::half_bits <= P::half_bits)
            with_simd(static_cast<Simd>(simd), [&] { subtract_slot<P, C, O>(parent, child, begin, end); });
        });
      });
    });
  }, SUBTRACTIONS_PER_THREAD);
}

}  // namespace

void init_histogram(nb::module_& m) {
  m.def("build_histograms", &build_histograms);
  m.def("subtract_histograms", &subtract_histograms);
}

}  // namespace bitgrove
