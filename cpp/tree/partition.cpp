// Stable partition of each node's rows by its split, for a batch of nodes at once.
//
// A node's rows are two runs in ascending order, active rows and then rows whose integers are zero;
// being stable, the partition keeps that. What goes left is written over what was read, what goes
// right into the scratch: a node of one task then lacks only the copy of its right half. Nodes that
// would keep the other threads waiting are divided block by block, and after the counts are known
// all halves are copied to their places.
#include "tree/partition.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "bindings/gil.h"
#include "bindings/rooms.h"
#include "common/parallel.h"
#include "common/plan_checks.h"
#include "common/widths.h"
#include "tree/divide.h"

namespace bitgrove {
namespace {

constexpr int64_t BLOCK = 8192;
// A node is one task if it has at most such a part of a thread's rows.
constexpr int64_t TASKS_PER_THREAD = 4;

struct NodeRows {
  int64_t begin, middle, end;

  int64_t size() const { return end - begin; }
};

struct Block {
  int node, run;
  int64_t begin, end, n_left, left_to, right_to;

  int64_t n_right() const { return end - begin - n_left; }
};

// The rows of nodes that are one task each.
int64_t most_rows(int64_t n_rows, int n_threads) {
  return n_threads == 1 ? n_rows : std::max(BLOCK, n_rows / (TASKS_PER_THREAD * n_threads));
}

std::vector<Block> plan_blocks(const std::vector<NodeRows>& nodes, int64_t most) {
  std::vector<Block> blocks;
  const auto add_run = [&](int node, int run, int64_t first, int64_t last) {
    for (int64_t begin = first; begin < last; begin += BLOCK)
      blocks.push_back({node, run, begin, std::min(begin + BLOCK, last), 0, 0, 0});
  };
  for (int i = 0; i < static_cast<int>(nodes.size()); ++i) {
    if (nodes[i].size() <= most) continue;
    add_run(i, 0, nodes[i].begin, nodes[i].middle);
    add_run(i, 1, nodes[i].middle, nodes[i].end);
  }
  return blocks;
}

// Counts the rows of both runs that go left per node, and says where each block's halves go.
void place_blocks(const std::vector<NodeRows>& nodes, std::vector<Block>& blocks,
                  std::vector<RowCounts>& n_left) {
  for (const Block& block : blocks)
    (block.run == 0 ? n_left[block.node].active : n_left[block.node].zero) += block.n_left;
  std::vector<int64_t> lefts, rights;
  for (size_t i = 0; i < nodes.size(); ++i) {
    lefts.push_back(nodes[i].begin);
    rights.push_back(nodes[i].begin + n_left[i].both());
  }
  for (Block& block : blocks) {
    block.left_to = lefts[block.node];
    block.right_to = rights[block.node];
    lefts[block.node] += block.n_left;
    rights[block.node] += block.n_right();
  }
}

void copy_rows(int32_t* to, const int32_t* from, int64_t n) {
  std::memcpy(to, from, n * sizeof(int32_t));
}

// Both runs of a node of one task: left halves close up in place, right ones follow from the
// scratch.
template <class Divide>
RowCounts divide_node(int node, const NodeRows& at, int32_t* rows, int32_t* scratch,
                      Divide&& divide) {
  const int64_t n_active = at.middle - at.begin, n_zero = at.end - at.middle;
  int32_t *first = rows + at.begin, *right = scratch + at.begin;
  const int64_t active = divide(node, first, n_active, Halves{first, right});
  const int64_t zero =
      divide(node, rows + at.middle, n_zero, Halves{first + active, right + n_active - active});
  copy_rows(first + active + zero, right, at.size() - active - zero);
  return {active, zero};
}

// divide(node, rows, n, halves) returns how many of n rows of that node went left.
template <class Divide>
std::vector<RowCounts> partition_nodes(const std::vector<NodeRows>& nodes, int32_t* rows,
                                       int32_t* scratch, int n_threads, Divide&& divide) {
  std::vector<RowCounts> n_left(nodes.size(), RowCounts{0, 0});
  int64_t n_rows = 0;
  for (const NodeRows& node : nodes) n_rows += node.size();
  n_threads = threads_for_rows(n_rows, n_threads);
  const int64_t most = most_rows(n_rows, n_threads);
  std::vector<Block> blocks = plan_blocks(nodes, most);
  const auto n_blocks = static_cast<int64_t>(blocks.size()),
             n_nodes = static_cast<int64_t>(nodes.size());
  parallel_tasks(n_blocks + n_nodes, n_threads, [&](int64_t task) {
    if (task >= n_blocks) {
      const int node = static_cast<int>(task - n_blocks);
      if (nodes[node].size() <= most)
        n_left[node] = divide_node(node, nodes[node], rows, scratch, divide);
      return;
    }
    Block& block = blocks[task];
    int32_t *left = rows + block.begin, *right = scratch + block.begin;
    block.n_left = divide(block.node, left, block.end - block.begin, Halves{left, right});
    copy_rows(right + block.n_right(), left, block.n_left);
  });
  place_blocks(nodes, blocks, n_left);
  parallel_tasks(n_blocks, n_threads, [&](int64_t task) {
    const Block& block = blocks[task];
    const int32_t* from = scratch + block.begin;
    copy_rows(rows + block.right_to, from, block.n_right());
    copy_rows(rows + block.left_to, from + block.n_right(), block.n_left);
  });
  return n_left;
}

template <class Sum>
int64_t separate(const Sum* packed, int32_t* rows, int32_t* scratch, int64_t n_rows,
                 int n_threads) {
  const auto divide = [packed](int, const int32_t* from, int64_t n, Halves out) {
    int64_t n_active = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int32_t row = from[i];
      const bool active = packed[row] != 0;
      out.left[n_active] = out.right[i - n_active] = row;
      n_active += active;
    }
    return n_active;
  };
  return partition_nodes({{0, n_rows, n_rows}}, rows, scratch, n_threads, divide)[0].active;
}

int64_t separate_zero_rows(const GivenArray<nb::ndim<1>, nb::ro>& packed,
                           const Vector<int32_t>& rows, const Vector<int32_t>& scratch,
                           int n_threads) {
  require(scratch.shape(0) >= rows.shape(0), "scratch too small");
  const int64_t n_rows = rows.shape(0);
  int64_t n_active = 0;
  WithoutGil released;
  visit_row_width(packed.itemsize(), [&](auto row) {
    using Sum = typename decltype(row)::Sum;
    n_active = separate(static_cast<const Sum*>(packed.data()), rows.data(), scratch.data(), n_rows,
                        n_threads);
  });
  return n_active;
}

// Some of a plan's divisions, each with the column that decides.
struct Group {
  std::vector<size_t> steps;
  std::vector<Split> splits;
};

void divide_group(std::span<const Division> plan, const Group& group, const PartitionSource& source,
                  int n_threads, Simd simd, std::vector<RowCounts>& n_left) {
  std::vector<NodeRows> nodes;
  for (const size_t i : group.steps)
    nodes.push_back({plan[i].begin, plan[i].first_zero, plan[i].end});
  const std::vector<RowCounts> found =
      partition_nodes(nodes, source.rows, source.scratch, n_threads,
                      [&](int node, const int32_t* rows, int64_t n, Halves out) {
                        return divide(group.splits[node], rows, n, simd, out);
                      });
  for (size_t i = 0; i < found.size(); ++i) n_left[group.steps[i]] = found[i];
}

// The rows of a node that do not go the way of their feature's implied bin.
class Movers {
 public:
  Movers(const Division& step, const PartitionSource& source)
      : step_(step), source_(source), bins_(*source.sparse), offset_(bins_.offset(step.feature)) {
    implied_left_ = left(static_cast<int>(bins_.implied(step.feature) - offset_));
    const int64_t n_rows = step.end - step.begin;
    // The lists of the node's rows, or all rows of the feature: whichever are fewer values.
    by_rows_ = !bins_.has_postings(step.feature) ||
               n_rows * bins_.values_per_row() < bins_.posting_bytes(step.feature);
  }

  // What they are marked with, so that "at most split().bin" is left.
  uint8_t mark() const { return implied_left_ ? NO_MARK + 1 : NO_MARK - 1; }
  Split split(const uint8_t* marks) const {
    return {marks,   static_cast<uint8_t>(implied_left_ ? NO_MARK : NO_MARK - 1),
            255,     false,
            nullptr, source_.column_stride - WINDOW};
  }

  BG_NOINLINE void set(uint8_t* marks, uint8_t mark) const {
    if (!by_rows_)
      return bins_.for_each_row(step_.feature, [&](int64_t row, int bin) {
        if (left(bin) != implied_left_) marks[row] = mark;
      });
    const auto n_bins = static_cast<uint64_t>(bins_.offset(step_.feature + 1) - offset_);
    for (int64_t i = step_.begin; i < step_.end; ++i) {
      const int32_t row = source_.rows[i];
      bins_.rows().for_each(row, [&](uint32_t position) {
        const uint64_t bin = static_cast<uint64_t>(position) - static_cast<uint64_t>(offset_);
        if (bin < n_bins && left(static_cast<int>(bin)) != implied_left_) marks[row] = mark;
      });
    }
  }

 private:
  bool left(int bin) const {
    return goes_left(bin, step_.bin, step_.missing_bin, step_.default_left != 0);
  }

  const Division& step_;
  const PartitionSource& source_;
  const SparseBins& bins_;
  int64_t offset_;
  bool implied_left_, by_rows_;
};

// Divides up to MARK_COLUMNS nodes by features in lists.
void divide_by_lists(std::span<const Division> plan, std::span<const size_t> steps,
                     const PartitionSource& source, int n_threads, Simd simd,
                     std::vector<RowCounts>& n_left) {
  Group group;
  std::vector<Movers> movers;
  const auto marks = [&](int64_t k) { return source.marks + k * source.column_stride; };
  for (const size_t i : steps) {
    movers.emplace_back(plan[i], source);
    group.steps.push_back(i);
    group.splits.push_back(movers.back().split(marks(static_cast<int64_t>(movers.size()) - 1)));
  }
  const auto n = static_cast<int64_t>(movers.size());
  parallel_tasks(n, n_threads, [&](int64_t k) { movers[k].set(marks(k), movers[k].mark()); });
  divide_group(plan, group, source, n_threads, simd, n_left);
  parallel_tasks(n, n_threads, [&](int64_t k) { movers[k].set(marks(k), NO_MARK); });
}

}  // namespace

std::vector<RowCounts> divide_rows(std::span<const Division> plan, const PartitionSource& source,
                                   int n_threads, Simd simd) {
  std::vector<RowCounts> n_left(plan.size(), RowCounts{0, 0});
  Group by_columns;
  std::vector<size_t> by_lists;
  for (size_t i = 0; i < plan.size(); ++i) {
    const Division& step = plan[i];
    check_division(step, source.n_listed, source.n_features);
    const int64_t column = source.column_of[step.feature];
    if (column < 0) {
      require(step.bin != SUBSET, "a split by a subset of a feature in lists");
      by_lists.push_back(i);
      continue;
    }
    by_columns.steps.push_back(i);
    by_columns.splits.push_back(
        {source.columns + column * source.column_stride, static_cast<uint8_t>(step.bin),
         static_cast<uint8_t>(step.missing_bin), step.default_left != 0,
         step.bin == SUBSET ? &step.left_bins : nullptr, source.column_stride - WINDOW});
  }
  if (!by_columns.steps.empty()) divide_group(plan, by_columns, source, n_threads, simd, n_left);
  for (size_t first = 0; first < by_lists.size(); first += MARK_COLUMNS) {
    const size_t n = std::min<size_t>(MARK_COLUMNS, by_lists.size() - first);
    divide_by_lists(plan, {by_lists.data() + first, n}, source, n_threads, simd, n_left);
  }
  return n_left;
}

void init_partition(nb::module_& m) {
  m.def("separate_zero_rows", &separate_zero_rows, "packed_rows"_a, "rows"_a, "scratch"_a,
        "n_threads"_a,
        "Puts the rows whose integers are zero behind the others, both in order; returns how many "
        "are not zero.");
}

}  // namespace bitgrove
