// Leaves of a finished tree: sums of the original gradients, and adding leaf values to scores.
#include <algorithm>
#include <optional>
#include <vector>

#include "math.h"
#include "parallel.h"
#include "rooms.h"
#include "tiles.h"

namespace bitgrove {
namespace {

struct Range {
  int leaf;
  int64_t begin, end;
};

std::vector<Range> row_ranges(Vector<const int64_t> begins, Vector<const int64_t> ends, int64_t n_rows) {
  require(begins.shape(0) == ends.shape(0), "begins and ends differ in length");
  std::vector<Range> ranges;
  for (size_t leaf = 0; leaf < begins.shape(0); ++leaf) {
    require(0 <= begins(leaf) && begins(leaf) <= ends(leaf) && ends(leaf) <= n_rows, "bad leaf range");
    for (int64_t begin = begins(leaf); begin < ends(leaf); begin += ROW_BLOCK)
      ranges.push_back({static_cast<int>(leaf), begin, std::min(begin + ROW_BLOCK, ends(leaf))});
  }
  return ranges;
}

// Rounds to a multiple of one: the fixed point of fixed_point.py, |x| < 2^51.
BG_FN int64_t fixed(double x) { return bits_of_double(x + ROUNDING_SHIFT) - bits_of_double(ROUNDING_SHIFT); }

BG_FN int64_t fixed_sum(const float* values, double unit, const int32_t* rows, const Range& range) {
  int64_t sum = 0;
  for (int64_t i = range.begin; i < range.end; ++i) sum += fixed(static_cast<double>(values[rows[i]]) * unit);
  return sum;
}

// sums (n_leaves, 2): int64 fixed point of grad * grad_unit and hess * hess_unit.
void leaf_sums(Vector<const int32_t> rows, Vector<const int64_t> begins, Vector<const int64_t> ends,
               Vector<const float> grad, Optional<const float> hess, double grad_unit, double hess_unit,
               Matrix<int64_t> sums, int n_threads, int simd) {
  require(sums.shape(0) == begins.shape(0) && sums.shape(1) == 2, "sums has the wrong shape");
  require(!hess || hess->shape(0) == grad.shape(0), "grad and hess differ in length");
  const int64_t n_listed = rows.shape(0);
  const std::vector<Range> ranges = row_ranges(begins, ends, n_listed);
  const int32_t* row = rows.data();
  const float *g = grad.data(), *h = hess ? hess->data() : nullptr;
  int64_t* out = sums.data();
  std::fill_n(out, 2 * sums.shape(0), 0);
  nb::gil_scoped_release release;
  n_threads = threads_for_rows(n_listed, n_threads);
  parallel_tasks(static_cast<int64_t>(ranges.size()), n_threads, [&](int64_t task) {
    const Range& range = ranges[task];
    int64_t grad_sum = 0, hess_sum = range.end - range.begin;
    with_simd(static_cast<Simd>(simd), [&] {
      grad_sum = fixed_sum(g, grad_unit, row, range);
      if (h) hess_sum = fixed_sum(h, hess_unit, row, range);
    });
    std::atomic_ref<int64_t>(out[2 * range.leaf]).fetch_add(grad_sum, std::memory_order_relaxed);
    std::atomic_ref<int64_t>(out[2 * range.leaf + 1]).fetch_add(hess_sum, std::memory_order_relaxed);
  });
}

void add_leaf_values(Vector<double> scores, Vector<const int32_t> rows, Vector<const int64_t> begins,
                     Vector<const int64_t> ends, Vector<const double> values, int n_threads) {
  require(values.shape(0) == begins.shape(0), "values and leaves differ");
  const int64_t n_listed = rows.shape(0);
  const std::vector<Range> ranges = row_ranges(begins, ends, n_listed);
  double* score = scores.data();
  const int32_t* row = rows.data();
  const double* value = values.data();
  nb::gil_scoped_release release;
  n_threads = threads_for_rows(n_listed, n_threads);
  parallel_tasks(static_cast<int64_t>(ranges.size()), n_threads, [&](int64_t task) {
    const Range& range = ranges[task];
    const double add = value[range.leaf];
    for (int64_t i = range.begin; i < range.end; ++i) score[row[i]] += add;
  });
}

struct BinnedTree {
  const int32_t *feature, *left, *right;
  const uint8_t *bin, *missing_bin, *default_left;
  const double* value;
  bool is_leaf;
};

int leaf_of(const BinnedTree& tree, const uint8_t* columns, int64_t column_stride, int64_t row) {
  if (tree.is_leaf) return 0;
  int node = 0;
  while (node >= 0) {
    const uint8_t bin = columns[tree.feature[node] * column_stride + row];
    const bool left = goes_left(bin, tree.bin[node], tree.missing_bin[node], tree.default_left[node] != 0);
    node = left ? tree.left[node] : tree.right[node];
  }
  return ~node;
}

// Adds one tree to the scores of binned rows: validation sets, and rows left out by sampling.
void add_binned_tree(Vector<double> scores, Matrix<const uint8_t> columns, Vector<const int32_t> feature,
                     Vector<const uint8_t> bin, Vector<const uint8_t> missing_bin, Vector<const uint8_t> default_left,
                     Vector<const int32_t> left, Vector<const int32_t> right, Vector<const double> value,
                     Optional<const int32_t> subset, int n_threads) {
  const int64_t n_rows = scores.shape(0), column_stride = columns.shape(1);
  require(column_stride >= n_rows && value.shape(0) == feature.shape(0) + 1, "bad sizes");
  const BinnedTree tree{feature.data(), left.data(), right.data(), bin.data(), missing_bin.data(),
                        default_left.data(), value.data(), feature.shape(0) == 0};
  const uint8_t* bins = columns.data();
  double* score = scores.data();
  const int32_t* rows = subset ? subset->data() : nullptr;
  const int64_t n = subset ? static_cast<int64_t>(subset->shape(0)) : n_rows;
  nb::gil_scoped_release release;
  parallel_rows(n, n_threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = rows ? rows[i] : i;
      score[row] += tree.value[leaf_of(tree, bins, column_stride, row)];
    }
  });
}

}  // namespace

void init_leaves(nb::module_& m) {
  m.def("leaf_sums", &leaf_sums, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
        nb::arg(), nb::arg(), nb::arg(), nb::arg());
  m.def("add_leaf_values", &add_leaf_values);
  m.def("add_binned_tree", &add_binned_tree, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
        nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
}

}  // namespace bitgrove
