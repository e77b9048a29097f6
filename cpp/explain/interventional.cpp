// Shapley values against a background: what is not known of a row is taken from another row.
//
// For one row x and one row b of the background, a feature counts only where the two part. A leaf
// that is reached with n_x features from x and n_b from b gives each of the n_x its value times
// (n_x - 1)! n_b! / (n_x + n_b)!, and takes from each of the n_b its value times
// n_x! (n_b - 1)! / (n_x + n_b)!. The walk goes both ways only where x and b part by a feature that
// has not been taken from either of them yet.
#include <algorithm>
#include <vector>

#include "bindings/gil.h"
#include "bindings/rooms.h"
#include "common/parallel.h"
#include "predict/step.h"

namespace bitgrove {
namespace {

constexpr int64_t BLOCK_ROWS = 32;
// The walk calls itself: a chain of splits must not end the stack.
constexpr int32_t MAX_DEPTH = 4096;

// i! j! / (i + j + 1)!
class Weights {
 public:
  explicit Weights(int32_t n) : n_(n), values_(static_cast<size_t>(n) * n) {
    for (int32_t i = 0; i < n; ++i)
      for (int32_t j = 0; j < n; ++j)
        values_[static_cast<size_t>(i) * n + j] =
            j == 0 ? 1.0 / (i + 1) : (*this)(i, j - 1) * j / (i + j + 1);
  }
  double operator()(int32_t i, int32_t j) const { return values_[static_cast<size_t>(i) * n_ + j]; }

 private:
  int32_t n_;
  std::vector<double> values_;
};

// What a leaf gives to each feature that is taken from x, and to each that is taken from b.
struct Gains {
  double of_row, of_background;
};

// Where some rows go at every split of a tree: the next node, by node.
template <class Real>
std::vector<int32_t> next_nodes(const Forest& forest, int64_t tree, const Real* rows,
                                int64_t n_rows) {
  const int64_t begin = forest.node_offset[tree], n_nodes = forest.node_offset[tree + 1] - begin;
  std::vector<int32_t> next(n_rows * n_nodes);
  for (int64_t i = 0; i < n_rows; ++i)
    for (int64_t n = 0; n < n_nodes; ++n)
      if (forest.leaf[begin + n] < 0)
        next[i * n_nodes + n] = static_cast<int32_t>(
            step<true>(forest.sets.data(), forest.nodes[begin + n], rows + i * forest.n_features) -
            begin);
  return next;
}

enum class Taken : uint8_t { nowhere, from_row, from_background };

struct PairWalk {
  const Forest& forest;
  int64_t tree;
  const int32_t* player_of;
  const Weights& weights;
  std::vector<Taken>& taken;  // by player
  const int32_t *row_next, *background_next;
  double* values;  // by player

  Gains from(int32_t node, int32_t n_row, int32_t n_background) {
    const int64_t at = forest.node_offset[tree] + node;
    if (forest.leaf[at] >= 0) {
      const double value = forest.leaf_value[forest.leaf_offset[tree] + forest.leaf[at]];
      return {n_row ? value * weights(n_row - 1, n_background) : 0.0,
              n_background ? -value * weights(n_row, n_background - 1) : 0.0};
    }
    const int32_t player = player_of[forest.nodes[at].feature_and_default & FEATURE_BITS];
    const int32_t of_row = row_next[node], of_background = background_next[node];
    if (of_row == of_background || taken[player] == Taken::from_row)
      return from(of_row, n_row, n_background);
    if (taken[player] == Taken::from_background) return from(of_background, n_row, n_background);
    taken[player] = Taken::from_row;
    const Gains known = from(of_row, n_row + 1, n_background);
    taken[player] = Taken::from_background;
    const Gains unknown = from(of_background, n_row, n_background + 1);
    taken[player] = Taken::nowhere;
    values[player] += known.of_row + unknown.of_background;
    return {known.of_row + unknown.of_row, known.of_background + unknown.of_background};
  }
};

int32_t depth_of(const Forest& forest) {
  std::vector<int32_t> depth(forest.nodes.size());
  int32_t most = 0;
  for (size_t node = 0; node < forest.nodes.size(); ++node) {  // children stand behind parents
    most = std::max(most, depth[node]);
    if (forest.leaf[node] >= 0) continue;
    const int32_t left = forest.nodes[node].left;
    depth[left] = depth[left + 1] = depth[node] + 1;
  }
  return most;
}

// values: (n_rows, n_outputs * (n_players + 1)), zeros before; the last of each output stays.
template <class Real>
void interventional_values(const Forest& forest, int64_t n_trees,
                           const Vector<const int32_t>& player_of, int64_t n_players,
                           const Matrix<const Real>& rows, const Matrix<const Real>& background,
                           int64_t n_outputs, const Matrix<double>& values, int n_threads) {
  const int64_t n_rows = rows.shape(0), n_background = background.shape(0),
                n_columns = forest.n_features, width = n_outputs * (n_players + 1);
  require(n_trees >= 0 && n_trees <= forest.n_trees(), "tree count out of range");
  require(n_outputs > 0 && n_players >= 0 && n_background > 0, "no outputs, or no background");
  require(static_cast<int64_t>(rows.shape(1)) == n_columns &&
              static_cast<int64_t>(background.shape(1)) == n_columns &&
              static_cast<int64_t>(player_of.shape(0)) == n_columns &&
              static_cast<int64_t>(values.shape(0)) == n_rows &&
              static_cast<int64_t>(values.shape(1)) == width,
          "rows or values have the wrong shape");
  for (int64_t c = 0; c < n_columns; ++c)
    require(player_of(c) >= 0 && player_of(c) < n_players, "player out of range");
  const int32_t depth = depth_of(forest);
  require(depth <= MAX_DEPTH, "a tree is too deep to be explained against a background");
  const Weights weights(depth + 1);
  const Real *given = rows.data(), *others = background.data();
  const int32_t* players = player_of.data();
  double* out = values.data();
  WithoutGil released;
  parallel_tasks(blocks_of(n_rows, BLOCK_ROWS), n_threads, [&](int64_t task) {
    const int64_t begin = task * BLOCK_ROWS, end = std::min(begin + BLOCK_ROWS, n_rows);
    std::vector<Taken> taken(n_players, Taken::nowhere);
    for (int64_t t = 0; t < n_trees; ++t) {
      const int64_t n_nodes = forest.node_offset[t + 1] - forest.node_offset[t];
      const auto of_rows = next_nodes(forest, t, given + begin * n_columns, end - begin);
      const auto of_background = next_nodes(forest, t, others, n_background);
      for (int64_t i = begin; i < end; ++i)
        for (int64_t b = 0; b < n_background; ++b)
          PairWalk{forest,
                   t,
                   players,
                   weights,
                   taken,
                   of_rows.data() + (i - begin) * n_nodes,
                   of_background.data() + b * n_nodes,
                   out + i * width + t % n_outputs * (n_players + 1)}
              .from(0, 0, 0);
    }
    for (double* v = out + begin * width; v < out + end * width; ++v)
      *v = *v / static_cast<double>(n_background);
  });
}

}  // namespace

void init_interventional(nb::module_& m) {
  const auto bind = [&m](auto function) {
    m.def("interventional_values", function, "forest"_a, "n_trees"_a, "player_of"_a, "n_players"_a,
          "rows"_a.noconvert(), "background"_a.noconvert(), "n_outputs"_a, "values"_a,
          "n_threads"_a,
          "Adds what each feature changes in the score of each row, beside rows of a background.");
  };
  bind(&interventional_values<float>);
  bind(&interventional_values<double>);
}

}  // namespace bitgrove
