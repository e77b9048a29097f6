// Frontier for Python: plans out, findings in.
#include "growth/frontier.h"

#include <algorithm>
#include <optional>

#include "bindings/numpy_arrays.h"
#include "bindings/records.h"
#include "bindings/rooms.h"
#include "growth/grown_tree.h"

namespace bitgrove {
namespace {

void make_frontier(Frontier* self, int n_slots, int64_t num_leaves, int64_t max_depth,
                   double min_child_samples, double min_child_hess, const WidthLimits& widths,
                   uint64_t key, const TreeRules* rules, bool one_width) {
  require(n_slots >= 2 && num_leaves >= 2, "at least two slots and two leaves");
  std::optional<NodeRules> node_rules;
  if (rules) node_rules.emplace(*rules);
  new (self)
      Frontier(n_slots, one_width, {num_leaves, max_depth, min_child_samples, min_child_hess},
               widths, key, std::move(node_rules));
}

template <class T>
std::vector<T> values_of(const Vector<const T>& array) {
  return {array.data(), array.data() + array.shape(0)};
}

void make_rules(TreeRules* self, const GainRules& gain, double path_smooth,
                double features_per_node, bool intermediate, const Vector<const int8_t>& direction,
                const Vector<const uint8_t>& allowed, const Vector<const uint8_t>& has_missing,
                const Vector<const int64_t>& missing_bin, const Matrix<const uint8_t>& groups) {
  const size_t n_features = direction.shape(0);
  require(allowed.shape(0) == n_features && has_missing.shape(0) == n_features &&
              missing_bin.shape(0) == n_features && groups.shape(1) == n_features,
          "feature arrays differ in length");
  new (self) TreeRules{gain,
                       path_smooth,
                       features_per_node,
                       intermediate,
                       values_of(direction),
                       values_of(allowed),
                       values_of(has_missing),
                       values_of(missing_bin),
                       {groups.data(), groups.data() + groups.size()}};
}

RecordArray next_batch(Frontier& frontier, double alpha, const Vector<const int64_t>& missing_bin) {
  for (int id : frontier.next_batch(alpha)) {
    const int feature = frontier.nodes()[id].split.feature;
    require(feature >= 0 && feature < static_cast<int64_t>(missing_bin.shape(0)),
            "feature out of range");
  }
  return to_records(frontier.divisions(missing_bin.data()));
}

using Counts = std::pair<int64_t, int64_t>;  // active rows, zero rows

void start(Frontier& frontier, int64_t grad, int64_t hess, Counts all_rows, Counts local_rows) {
  frontier.start(grad, hess, {all_rows.first, all_rows.second},
                 {local_rows.first, local_rows.second});
}

void divide(Frontier& frontier, const Records<RowCounts>& local_left,
            const Records<RowCounts>& all_left) {
  require(
      local_left.items.size() == frontier.n_batch() && all_left.items.size() == frontier.n_batch(),
      "counts of each node of the batch are needed");
  frontier.divide(local_left.items.data(), all_left.items.data());
}

std::optional<SearchPlan> next_search(Frontier& frontier) {
  SearchPlan plan;
  if (!frontier.next_search(plan)) return std::nullopt;
  return plan;
}

void record(Frontier& frontier, const Records<SplitInfo>& found) {
  require(found.items.size() == frontier.n_searched(), "one SplitInfo per searched node");
  frontier.record(found.items.data());
}

// (n_splits, 4) words; no rows if no split is by a subset.
nb::object sets_of(const std::vector<GrownSplit>& splits, const std::vector<BinSet>& sets) {
  const auto is_subset = [](const GrownSplit& split) { return split.by_subset != 0; };
  static const nb::handle none = nb::cast(to_numpy(std::vector<uint64_t>(), {0, 4})).release();
  if (std::none_of(splits.begin(), splits.end(), is_subset)) return nb::borrow(none);
  std::vector<uint64_t> words;
  for (const BinSet& set : sets) words.insert(words.end(), set.words, set.words + 4);
  return nb::cast(to_numpy(std::move(words), {sets.size(), 4}));
}

// Where the rows of each leaf begin and end.
nb::tuple leaves(const Frontier& frontier) {
  std::vector<int64_t> begins, ends;
  for (int id : leaf_nodes(frontier)) {
    const FrontierNode& leaf = frontier.nodes()[id];
    begins.push_back(leaf.begin);
    ends.push_back(leaf.begin + leaf.local.both());
  }
  return nb::make_tuple(to_records(begins), to_records(ends));
}

// The fields of a GrownTree (backends/base.py), by name.
nb::dict finish(const Frontier& frontier, const Vector<const double>& edge_values,
                const Vector<const int64_t>& edge_offset, const Vector<const uint8_t>& has_missing,
                double hess_scale) {
  const auto n_features = static_cast<int64_t>(has_missing.shape(0));
  require(static_cast<int64_t>(edge_offset.shape(0)) == n_features + 1 &&
              edge_offset(n_features) == static_cast<int64_t>(edge_values.shape(0)),
          "cut tables differ in length");
  const auto [splits, left_bins, leaves] = finish_tree(
      frontier, {edge_values.data(), edge_offset.data(), has_missing.data(), n_features},
      hess_scale);
  nb::dict fields;
  fields["splits"] = to_records(splits);
  fields["left_bins"] = sets_of(splits, left_bins);
  fields["leaf_rows"] = to_records(leaves.rows);
  fields["leaf_sums"] = to_records(leaves.sums);
  if (frontier.node_rules()) {
    fields["leaf_lower"] = to_records(leaves.lower);
    fields["leaf_upper"] = to_records(leaves.upper);
  }
  return fields;
}

std::optional<nb::ndarray<nb::numpy, uint8_t>> allowed_of(const SearchPlan& plan) {
  if (plan.allowed.empty()) return std::nullopt;
  const size_t n_nodes = plan.nodes.size();
  return to_numpy(std::vector(plan.allowed), {n_nodes, plan.allowed.size() / n_nodes});
}

void bind_width_limits(nb::module_& m) {
  nb::class_<WidthLimits>(m, "WidthLimits", "The most rows that each width of sums can take.")
      .def(
          "__init__",
          [](WidthLimits* self, std::array<int64_t, 3> total_rows,
             std::array<int64_t, 4> local_rows, std::array<int64_t, 4> usual_rows,
             int64_t block_rows, int64_t least_block_rows, int64_t least_rows) {
            new (self) WidthLimits{total_rows, local_rows,       usual_rows,
                                   block_rows, least_block_rows, least_rows};
          },
          "total_rows"_a, "local_rows"_a, "usual_rows"_a, "block_rows"_a, "least_block_rows"_a,
          "least_rows"_a)
      .def("total_width", &WidthLimits::total_width, "n_rows"_a)
      .def("local", &WidthLimits::local, "n_rows"_a, "total_width"_a,
           "(width, rows per block) of the accumulators that feed a total.");
}

}  // namespace

void init_frontier(nb::module_& m) {
  bind_width_limits(m);
  nb::class_<TreeRules>(m, "TreeRules", "The rules of one tree, as its nodes keep them.")
      .def("__init__", &make_rules, "gain"_a, "path_smooth"_a, "features_per_node"_a,
           "intermediate"_a, "direction"_a, "allowed"_a, "has_missing"_a, "missing_bin"_a,
           "groups"_a);
  nb::class_<SearchPlan>(m, "SearchPlan", "What to build, to subtract then, and to search.")
      .def_prop_ro("builds", [](const SearchPlan& plan) { return to_records(plan.builds); })
      .def_prop_ro("subtractions",
                   [](const SearchPlan& plan) { return to_records(plan.subtractions); })
      .def_prop_ro("nodes", [](const SearchPlan& plan) { return to_records(plan.nodes); })
      .def_prop_ro("allowed", &allowed_of, nb::rv_policy::reference,
                   "Of each node's features; None: as the tree's.");
  nb::class_<Frontier>(m, "Frontier", "The bookkeeping of one growing tree.")
      .def("__init__", &make_frontier, "n_slots"_a, "num_leaves"_a, "max_depth"_a,
           "min_child_samples"_a, "min_child_hess"_a, "widths"_a, "key"_a = 0,
           "rules"_a.none() = nb::none(), "one_width"_a = false)
      .def("start", &start, "grad"_a, "hess"_a, "all_rows"_a, "local_rows"_a,
           "Tells it the root's sums and its (active, zero) rows, on all ranks and on this one.")
      .def("next_batch", &next_batch, "alpha"_a, "missing_bin"_a,
           "The Divisions of the next nodes; none when the tree is done.")
      .def("divide", &divide, "local_left"_a, "all_left"_a,
           "Tells it the RowCounts gone left of each node of the batch.")
      .def("next_search", &next_search, "The next SearchPlan; None when every child is known.")
      .def("record", &record, "found"_a, "Tells it the SplitInfos of the searched nodes.")
      .def("leaves", &leaves, "Where this rank's rows of each leaf begin and end.")
      .def("finish", &finish, "edge_values"_a, "edge_offset"_a, "has_missing"_a, "hess_scale"_a,
           "The fields of the grown tree, by name.")
      .def_prop_ro("n_rounds", &Frontier::n_rounds)
      .def_prop_ro("widths_used", [](const Frontier& f) { return f.widths_used(); });
}

}  // namespace bitgrove
