// See shap_forest.h.
#include "explain/shap_forest.h"

#include <algorithm>

#include "bindings/numpy_arrays.h"
#include "bindings/records.h"
#include "explain/quadrature.h"

namespace bitgrove {
namespace {

// Different features on one path. More would take hours, and no training makes them.
constexpr int32_t MAX_PATH_PLAYERS = 1024;
constexpr int32_t NONE = -1;

// An edge from a node to its child. unknown: the shares of all edges of the path by the same player
// multiplied, with this one and without it.
struct Edge {
  int32_t player, depth, n_players;  // n_players: of the path down to here
  int32_t same_player;               // the nearest edge above with the same player, or NONE
  double share, unknown, unknown_before, leaf_value;
  int64_t step;  // down along it
};

// The tree with what the training rows say of its nodes.
struct MeasuredTree {
  const Forest& forest;
  int64_t begin, end, first_leaf;       // its nodes, and its first leaf value
  std::vector<double> cover{}, mean{};  // of every node

  MeasuredTree(const Forest& all, int64_t tree, const double* leaf_cover)
      : forest(all),
        begin(all.node_offset[tree]),
        end(all.node_offset[tree + 1]),
        first_leaf(all.leaf_offset[tree]),
        cover(end - begin),
        mean(end - begin) {
    for (int64_t node = end - 1; node >= begin; --node) {  // children stand behind their parents
      const int64_t left = all.nodes[node].left, right = left + 1, at = node - begin;
      if (is_leaf(node)) {
        cover[at] = leaf_cover[first_leaf + all.leaf[node]];
        mean[at] = value(node);
      } else {
        cover[at] = cover[left - begin] + cover[right - begin];
        mean[at] =
            share(node, left) * mean[left - begin] + share(node, right) * mean[right - begin];
      }
    }
  }

  bool is_leaf(int64_t node) const { return forest.leaf[node] >= 0; }
  double value(int64_t node) const { return forest.leaf_value[first_leaf + forest.leaf[node]]; }

  // Where a node has no rows, half of them go each way.
  double share(int64_t node, int64_t child) const {
    const double all = cover[node - begin];
    return all > 0.0 ? cover[child - begin] / all : 0.5;
  }
};

class StepMaker {
 public:
  StepMaker(ShapForest& made, const int32_t* player_of)
      : made_(made), player_of_(player_of), latest_(made.n_players, NONE) {}

  void append(const MeasuredTree& tree) {
    edges_.clear();
    edge_of_step_.clear();
    ShapTree steps{static_cast<int64_t>(made_.steps.size()), 0, 1, 1, tree.mean[0]};
    walk(tree);
    for (const Edge& edge : edges_) {
      steps.n_points = std::max(steps.n_points, (edge.n_players + 1) / 2);
      steps.depth = std::max(steps.depth, edge.depth);
    }
    const std::vector<QuadraturePoint>& points = points_of(steps.n_points);
    for (size_t s = 0; s < edge_of_step_.size(); ++s)
      add_factors(made_.steps[steps.begin + s], edges_[edge_of_step_[s]], points);
    steps.end = static_cast<int64_t>(made_.steps.size());
    made_.most_points = std::max(made_.most_points, steps.n_points);
    made_.most_depth = std::max(made_.most_depth, steps.depth);
    made_.trees.push_back(steps);
  }

 private:
  const std::vector<QuadraturePoint>& points_of(int32_t n) {
    auto& all = made_.points;
    if (static_cast<int32_t>(all.size()) <= n) all.resize(n + 1);
    if (all[n].empty()) all[n] = quadrature(n);
    return all[n];
  }

  // Depth first, left before right. The stack is its own: a tree may be a long chain.
  void walk(const MeasuredTree& tree) {
    struct Visit {
      int64_t node;
      int n_done;  // of its children
    };
    std::vector<Visit> visits{{tree.begin, tree.is_leaf(tree.begin) ? 2 : 0}};
    while (!visits.empty()) {
      Visit& visit = visits.back();
      if (visit.n_done == 2) {
        visits.pop_back();
        if (!path_.empty()) go_up();
        continue;
      }
      const int64_t node = visit.node, child = tree.forest.nodes[node].left + visit.n_done;
      go_down(tree, node, child, visit.n_done++ == 1);
      if (!tree.is_leaf(child)) visits.push_back({child, 0});
    }
  }

  void go_down(const MeasuredTree& tree, int64_t node, int64_t child, bool right) {
    const ForestNode& split = tree.forest.nodes[node];
    const bool by_subset = split.feature_and_default & SUBSET_BIT, to_leaf = tree.is_leaf(child);
    const int32_t player = player_of_[split.feature_and_default & FEATURE_BITS];
    const Edge* above = path_.empty() ? nullptr : &edges_[path_.back()];
    const Edge* before = latest_[player] == NONE ? nullptr : &edges_[latest_[player]];
    const double share = tree.share(node, child), unknown_before = before ? before->unknown : 1.0;
    const Edge edge{player,
                    static_cast<int32_t>(path_.size()) + 1,
                    (above ? above->n_players : 0) + (before ? 0 : 1),
                    latest_[player],
                    share,
                    unknown_before * share,
                    unknown_before,
                    to_leaf ? tree.value(child) : 1.0,
                    static_cast<int64_t>(made_.steps.size())};
    require(edge.n_players <= MAX_PATH_PLAYERS, "a path has too many features to be explained");
    ShapStep step{};
    step.threshold = split.threshold;
    step.share = share * edge.leaf_value;
    step.above = above ? above->step : NONE;
    step.feature = split.feature_and_default;
    step.set = by_subset ? static_cast<int32_t>(split.threshold) : 0;
    step.player = player;
    step.depth = edge.depth;
    step.previous = before ? before->depth : 0;
    step.kind = (right ? SHAP_RIGHT : SHAP_DECIDE) | (to_leaf ? SHAP_LEAF : 0);
    made_.steps.push_back(step);
    edge_of_step_.push_back(static_cast<int32_t>(edges_.size()));
    edges_.push_back(edge);
    if (to_leaf) return;
    path_.push_back(edge_of_step_.back());
    latest_[player] = path_.back();
  }

  void go_up() {
    const Edge& edge = edges_[path_.back()];
    ShapStep step = made_.steps[edge.step];
    step.kind = SHAP_LEAVE;
    made_.steps.push_back(step);
    edge_of_step_.push_back(path_.back());
    latest_[edge.player] = edge.same_player;
    path_.pop_back();
  }

  // The way up has those of the way down.
  void add_factors(ShapStep& step, const Edge& edge, const std::vector<QuadraturePoint>& points) {
    if (step.kind & SHAP_LEAVE) {
      step.first_factor = made_.steps[edge.step].first_factor;
      return;
    }
    step.first_factor = static_cast<int64_t>(made_.factors.size());
    for (const QuadraturePoint& p : points) {
      // z (1-t) + o t of the player: without this edge, with it, and for a row that leaves here.
      const double before = step.previous ? edge.unknown_before * p.rest + p.t : 1.0;
      const double on = edge.unknown * p.rest + p.t, off = edge.unknown * p.rest;
      ShapFactor factor{edge.leaf_value * on / before, edge.leaf_value * off / before,
                        p.weight * (edge.unknown_before - edge.unknown) / (on * before),
                        -p.weight / (p.rest * before)};
      if (step.kind & SHAP_LEAF) {
        factor.gain_on *= factor.on;
        factor.gain_off *= factor.off;
      }
      made_.factors.push_back(factor);
    }
  }

  ShapForest& made_;
  const int32_t* player_of_;
  std::vector<int32_t> latest_;  // of every player, its last edge on the path
  std::vector<int32_t> path_;    // the edges down to the current node
  std::vector<Edge> edges_;
  std::vector<int32_t> edge_of_step_;
};

ShapForest make_shap_forest(const Forest& forest, const Vector<const double>& leaf_cover,
                            const Vector<const int32_t>& player_of, int64_t n_players) {
  require(leaf_cover.shape(0) == forest.leaf_value.size(), "one cover per leaf");
  require(static_cast<int64_t>(player_of.shape(0)) == forest.n_features && n_players >= 0,
          "one player per column");
  for (size_t i = 0; i < leaf_cover.shape(0); ++i)
    require(leaf_cover(i) >= 0.0 && leaf_cover(i) < 1e300, "a cover is negative or not finite");
  for (size_t i = 0; i < player_of.shape(0); ++i)
    require(player_of(i) >= 0 && player_of(i) < n_players, "player out of range");
  ShapForest made;
  made.sets = forest.sets;
  made.n_columns = forest.n_features;
  made.n_players = n_players;
  made.simd = forest.simd;
  StepMaker maker(made, player_of.data());
  for (int64_t t = 0; t < forest.n_trees(); ++t)
    maker.append(MeasuredTree(forest, t, leaf_cover.data()));
  return made;
}

nb::ndarray<nb::numpy, double> expected_values(const ShapForest& forest) {
  std::vector<double> expected;
  for (const ShapTree& tree : forest.trees) expected.push_back(tree.expected);
  const size_t n_trees = expected.size();
  return to_numpy(std::move(expected), {n_trees});
}

// What a GPU needs of a forest; `depth` and `points` are the largest of its trees.
nb::dict tables_of(const ShapForest& forest) {
  nb::dict tables;
  std::vector<int64_t> first_step, n_points;
  for (const ShapTree& tree : forest.trees) {
    first_step.push_back(tree.begin);
    n_points.push_back(tree.n_points);
  }
  first_step.push_back(static_cast<int64_t>(forest.steps.size()));
  std::vector<uint64_t> sets;
  for (const BinSet& set : forest.sets) sets.insert(sets.end(), set.words, set.words + 4);
  const size_t n_trees = n_points.size(), n_sets = forest.sets.size();
  tables["steps"] = to_records(forest.steps);
  tables["factors"] = to_records(forest.factors);
  tables["sets"] = to_numpy(std::move(sets), {n_sets, 4});
  tables["first_step"] = to_numpy(std::move(first_step), {n_trees + 1});
  tables["n_points"] = to_numpy(std::move(n_points), {n_trees});
  tables["depth"] = forest.most_depth;
  tables["points"] = forest.most_points;
  return tables;
}

}  // namespace

void init_shap_forest(nb::module_& m) {
  nb::class_<ShapForest>(m, "ShapForest")
      .def("expected", &expected_values, "Of every tree: the mean of its leaves by rows.")
      .def("tables", &tables_of, "Its steps and factors, for a GPU.");
  m.def("make_shap_forest", &make_shap_forest, "forest"_a, "leaf_cover"_a, "player_of"_a,
        "n_players"_a,
        "The steps that explain a forest; player_of: the feature that each column counts for.");
}

}  // namespace bitgrove
