// Scores and leaves of the rows of a sparse table. Values become codes one by one, or are put into
// a few rows of zeros, walk, and are taken out again: no row is ever made dense for long.
#include <algorithm>
#include <vector>

#include "bindings/gil.h"
#include "bindings/rooms.h"
#include "common/parallel.h"
#include "predict/visits.h"

namespace bitgrove {
namespace {

// LANES rows of zeros that hold the values of some rows while these walk.
class DenseRows {
 public:
  explicit DenseRows(const SparseTable& table)
      : table_(table), values_(LANES * table.n_columns(), 0.0) {}

  void put(int64_t first, int64_t n) {
    set(first, n, [&](int64_t k) { return table_.value(k); });
  }
  void take_out(int64_t first, int64_t n) {
    set(first, n, [](int64_t) { return 0.0; });
  }
  const double* data() const { return values_.data(); }

 private:
  template <class ValueOf>
  void set(int64_t first, int64_t n, ValueOf&& value_of) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = table_.begin(first + i), end = table_.end(first + i); k < end; ++k)
        values_[i * table_.n_columns() + table_.index(k)] = value_of(k);
  }

  const SparseTable& table_;
  std::vector<double> values_;
};

template <class Visit>
void walk_rows(const Forest& forest, int64_t n_trees, const SparseTable& table, int64_t begin,
               int64_t end, Visit& visit) {
  DenseRows rows(table);
  for (int64_t first = begin; first < end; first += LANES) {
    const int64_t n = std::min<int64_t>(LANES, end - first);
    rows.put(first, n);
    const Work<double> work{forest, n_trees, rows.data(), n, table.n_columns()};
    const auto visit_here = [&](int64_t row, int64_t t, int64_t leaf) {
      visit(first + row, t, leaf);
    };
    if (n == LANES)
      visit_eight_rows(work, 0, n, visit_here);
    else
      for (int64_t row = 0; row < n; ++row) visit_one_row(work, row, visit_here);
    rows.take_out(first, n);
  }
}

template <class Visit>
void for_each_leaf(const Forest& forest, int64_t n_trees, const SparseTable& table, int n_threads,
                   Visit visit) {
  require(table.by_rows() && table.n_columns() == forest.n_features, "rows have the wrong shape");
  table.check(n_threads);
  std::vector<int32_t> column_of;
  if (forest.coded) {
    column_of.assign(forest.n_features, -1);
    const std::vector<int32_t>& features = forest.coded->features;
    for (size_t c = 0; c < features.size(); ++c) column_of[features[c]] = static_cast<int32_t>(c);
  }
  // Walking needs rows of zeros, which are made once for each task.
  const int64_t block = forest.coded ? CODED_ROWS : ROW_BLOCK, n_rows = table.n_rows();
  parallel_tasks(blocks_of(n_rows, block), n_threads, [&](int64_t task) {
    const int64_t begin = task * block, end = std::min(begin + block, n_rows);
    if (!forest.coded) return walk_rows(forest, n_trees, table, begin, end, visit);
    CodedRows rows(*forest.coded, forest.simd);
    rows.read(table, column_of, begin, end - begin);
    visit_coded(forest, n_trees, rows, begin, end, visit);
  });
}

// As predict_scores of dense rows.
void predict_scores(const Forest& forest, int64_t n_trees, const SparseTable& rows,
                    const Matrix<double>& scores, int n_threads) {
  require(n_trees >= 0 && n_trees <= forest.n_trees(), "tree count out of range");
  require(static_cast<int64_t>(scores.shape(0)) == rows.n_rows(), "rows have the wrong shape");
  const int64_t n_outputs = scores.shape(1);
  double* out = scores.data();
  WithoutGil released;
  for_each_leaf(forest, n_trees, rows, n_threads, [&](int64_t row, int64_t t, int64_t leaf) {
    out[row * n_outputs + t % n_outputs] += forest.leaf_value[forest.leaf_offset[t] + leaf];
  });
}

void predict_leaves(const Forest& forest, const SparseTable& rows, const Matrix<int32_t>& leaves,
                    int n_threads) {
  const int64_t n_trees = forest.n_trees();
  require(static_cast<int64_t>(leaves.shape(0)) == rows.n_rows() &&
              static_cast<int64_t>(leaves.shape(1)) == n_trees,
          "rows or leaves have the wrong shape");
  int32_t* out = leaves.data();
  WithoutGil released;
  for_each_leaf(forest, n_trees, rows, n_threads, [&](int64_t row, int64_t t, int64_t leaf) {
    out[row * n_trees + t] = static_cast<int32_t>(leaf);
  });
}

}  // namespace

void init_predict_sparse(nb::module_& m) {
  m.def("predict_scores", &predict_scores, "forest"_a, "n_trees"_a, "rows"_a, "scores"_a,
        "n_threads"_a, "Adds the leaf values of the first trees to the scores of sparse rows.");
  m.def("predict_leaves", &predict_leaves, "forest"_a, "rows"_a, "leaves"_a, "n_threads"_a,
        "Writes the leaf that each row of a sparse table reaches in each tree.");
}

}  // namespace bitgrove
