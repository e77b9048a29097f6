// Shapley values of raw rows (float32 or float64, row-major) through a forest, and their
// interactions. The walk is that of kernels/shared/shap.h, of a few vectors of rows at a time; each
// row adds its trees in their order, so that its bits do not depend on threads or other rows.
#include "shap.h"

#include <algorithm>
#include <vector>

#include "bindings/gil.h"
#include "bindings/rooms.h"
#include "common/parallel.h"
#include "explain/shap_forest.h"

namespace bitgrove {
namespace {

// Rows that go through a tree together, and rows between which its factors stay in the cache.
constexpr int LANES = 8;
constexpr int64_t BLOCK_ROWS = 128;

struct VectorLanes {
  static constexpr int N = LANES;
  static constexpr int64_t stride = LANES;
};

// Values of some rows, column after column: [column][row], padded with zeros to whole vectors.
class Columns {
 public:
  template <class Real>
  Columns(const Real* rows, int64_t n_rows, int64_t n_columns) : values_(n_columns * BLOCK_ROWS) {
    for (int64_t i = 0; i < n_rows; ++i)
      for (int64_t c = 0; c < n_columns; ++c)
        values_[c * BLOCK_ROWS + i] = static_cast<double>(rows[i * n_columns + c]);
  }

  const double* at(int64_t column, int64_t row) const {
    return values_.data() + column * BLOCK_ROWS + row;
  }

 private:
  std::vector<double> values_;
};

// Where the rows from `first` on go at a step's split.
struct Decide {
  const ShapForest& forest;
  const Columns& columns;
  int64_t first;

  BG_FN void operator()(const ShapStep& step, int64_t* went_left) const {
    const double* x = columns.at(step.feature & FEATURE_BITS, first);
    const int64_t missing_left = step.feature & DEFAULT_LEFT_BIT ? -1 : 0;
    if (step.feature & SUBSET_BIT) {
      const BinSet& set = forest.sets[step.set];
      for (int i = 0; i < LANES; ++i) {
        const bool is_level = x[i] >= 0.0 && x[i] < BINS_PER_FEATURE;
        const int64_t holds = is_level && set.holds(static_cast<int>(x[i])) ? -1 : 0;
        went_left[i] = x[i] != x[i] ? missing_left : holds;
      }
      return;
    }
    for (int i = 0; i < LANES; ++i) {  // without branches: nobody could foresee them
      const int64_t missing = x[i] != x[i] ? missing_left : 0,
                    low = x[i] <= step.threshold ? -1 : 0;
      went_left[i] = low | missing;
    }
  }
};

// The room of one thread.
template <int Sums>
class Room {
 public:
  explicit Room(const ShapForest& forest)
      : masks_(2 * (forest.most_depth + 1) * LANES),
        sums_(static_cast<size_t>(forest.most_depth + 1) * Sums * forest.most_points * LANES) {}

  ShapRoom<VectorLanes> of(const ShapTree& tree) {
    return {VectorLanes{}, masks_.data(), sums_.data(), tree.n_points, Sums};
  }

 private:
  std::vector<int64_t> masks_;
  std::vector<double> sums_;
};

// The rows of a task.
struct Rows {
  const Columns& columns;
  int64_t first, n;
};

struct AddValues {
  double* sums;  // [player][BLOCK_ROWS]

  BG_FN void operator()(int32_t player, const double* values) {
    double* sum = sums + player * BLOCK_ROWS;
    for (int i = 0; i < LANES; ++i) sum[i] = sum[i] + values[i];
  }
};

// values: (n_rows, n_outputs, n_players + 1); the last of each output is the caller's.
void explain_block(const ShapForest& forest, int64_t n_trees, const Rows& rows, int64_t n_outputs,
                   double* values) {
  const int64_t first = rows.first, n_rows = rows.n;
  const int64_t n_players = forest.n_players;
  std::vector<double> sums(n_outputs * n_players * BLOCK_ROWS);
  Room<2> room(forest);
  for (int64_t t = 0; t < n_trees; ++t) {
    const ShapTree& tree = forest.trees[t];
    const ShapWalk<VectorLanes, false> walk{forest.steps.data(), forest.factors.data(), nullptr,
                                            room.of(tree)};
    double* of_output = sums.data() + t % n_outputs * n_players * BLOCK_ROWS;
    with_simd<Simd::avx2>(forest.simd, [&] {
      for (int64_t row = 0; row < n_rows; row += LANES) {
        AddValues add{of_output + row};
        walk.tree(tree.begin, tree.end, Decide{forest, rows.columns, row}, add);
      }
    });
  }
  for (int64_t i = 0; i < n_rows; ++i)
    for (int64_t k = 0; k < n_outputs; ++k)
      for (int64_t p = 0; p < n_players; ++p)
        values[((first + i) * n_outputs + k) * (n_players + 1) + p] =
            sums[(k * n_players + p) * BLOCK_ROWS + i];
}

// Half of what a pair of edges gives belongs to each of its two players.
struct AddPairs {
  double* first;  // the matrix of the first row, of n_players + 1 rows and columns
  int64_t to_next_row, width, n_rows;

  BG_FN void operator()(int32_t player, const double* values) { (*this)(player, player, values); }
  BG_FN void operator()(int32_t one, int32_t other, const double* values) {
    for (int64_t i = 0; i < n_rows; ++i) {
      double* matrix = first + i * to_next_row;
      if (one == other) {
        matrix[one * width + one] += values[i];
      } else {
        matrix[one * width + other] += 0.5 * values[i];
        matrix[other * width + one] += 0.5 * values[i];
      }
    }
  }
};

// matrices: (n_rows, n_outputs, n_players + 1, n_players + 1), zeros before. What a feature has
// apart from all others is what its interactions leave of its value.
void interact_block(const ShapForest& forest, int64_t n_trees, const Rows& rows, int64_t n_outputs,
                    double* matrices) {
  const int64_t first = rows.first, n_rows = rows.n;
  const int64_t width = forest.n_players + 1;
  Room<3> room(forest);
  std::vector<double> inverse_weights;
  for (int64_t t = 0; t < n_trees; ++t) {
    const ShapTree& tree = forest.trees[t];
    inverse_weights.clear();
    for (const QuadraturePoint& p : forest.points[tree.n_points])
      inverse_weights.push_back(1.0 / p.weight);
    const ShapWalk<VectorLanes, true> walk{forest.steps.data(), forest.factors.data(),
                                           inverse_weights.data(), room.of(tree)};
    with_simd<Simd::avx2>(forest.simd, [&] {
      for (int64_t row = 0; row < n_rows; row += LANES) {
        AddPairs add{matrices + ((first + row) * n_outputs + t % n_outputs) * width * width,
                     n_outputs * width * width, width, std::min<int64_t>(LANES, n_rows - row)};
        walk.tree(tree.begin, tree.end, Decide{forest, rows.columns, row}, add);
      }
    });
  }
  for (int64_t m = first * n_outputs; m < (first + n_rows) * n_outputs; ++m)
    for (int64_t p = 0; p < forest.n_players; ++p) {
      double* row = matrices + (m * width + p) * width;
      double others = 0.0;
      for (int64_t other = 0; other < forest.n_players; ++other)
        if (other != p) others += row[other];
      row[p] -= others;
    }
}

// Calls explain(forest, n_trees, rows, n_outputs, out) for all blocks of rows; out has out_width
// numbers per row and output.
using Explain = void (*)(const ShapForest& forest, int64_t n_trees, const Rows& rows,
                         int64_t n_outputs, double* out);

template <class Real>
void for_each_block(const ShapForest& forest, int64_t n_trees, const Matrix<const Real>& rows,
                    int64_t n_outputs, const Matrix<double>& out, int64_t out_width, int n_threads,
                    Explain explain) {
  require(n_trees >= 0 && n_trees <= static_cast<int64_t>(forest.trees.size()),
          "tree count out of range");
  require(n_outputs > 0 && rows.shape(0) == out.shape(0) &&
              static_cast<int64_t>(rows.shape(1)) == forest.n_columns &&
              static_cast<int64_t>(out.shape(1)) == n_outputs * out_width,
          "rows or values have the wrong shape");
  const auto n_rows = static_cast<int64_t>(rows.shape(0));
  const Real* data = rows.data();
  double* values = out.data();
  WithoutGil released;
  parallel_tasks(blocks_of(n_rows, BLOCK_ROWS), n_threads, [&](int64_t task) {
    const int64_t first = task * BLOCK_ROWS, n = std::min(BLOCK_ROWS, n_rows - first);
    const Columns columns(data + first * forest.n_columns, n, forest.n_columns);
    explain(forest, n_trees, {columns, first, n}, n_outputs, values);
  });
}

template <class Real>
void shap_values(const ShapForest& forest, int64_t n_trees, const Matrix<const Real>& rows,
                 int64_t n_outputs, const Matrix<double>& out, int n_threads) {
  for_each_block(forest, n_trees, rows, n_outputs, out, forest.n_players + 1, n_threads,
                 explain_block);
}

template <class Real>
void shap_interactions(const ShapForest& forest, int64_t n_trees, const Matrix<const Real>& rows,
                       int64_t n_outputs, const Matrix<double>& out, int n_threads) {
  const int64_t width = forest.n_players + 1;
  for_each_block(forest, n_trees, rows, n_outputs, out, width * width, n_threads, interact_block);
}

}  // namespace

void init_shap(nb::module_& m) {
  const auto bind_values = [&m](auto function) {
    m.def("shap_values", function, "forest"_a, "n_trees"_a, "rows"_a.noconvert(), "n_outputs"_a,
          "values"_a, "n_threads"_a,
          "Writes what each feature adds to the score of each row, in the first trees.");
  };
  const auto bind_interactions = [&m](auto function) {
    m.def("shap_interactions", function, "forest"_a, "n_trees"_a, "rows"_a.noconvert(),
          "n_outputs"_a, "values"_a, "n_threads"_a,
          "Writes what each pair of features adds to the score of each row; zeros before.");
  };
  bind_values(&shap_values<float>);
  bind_values(&shap_values<double>);
  bind_interactions(&shap_interactions<float>);
  bind_interactions(&shap_interactions<double>);
}

}  // namespace bitgrove
