// Frontier for Python: plans out, findings in.
#include "frontier.h"

#include <optional>

#include "numpy_arrays.h"
#include "rooms.h"

namespace bitgrove {
namespace {

Frontier make_frontier(int n_slots, int64_t num_leaves, int64_t max_depth, double min_child_samples,
                       double min_child_hess, const WidthLimits& widths) {
  require(n_slots >= 2 && num_leaves >= 2, "at least two slots and two leaves");
  return Frontier(n_slots, {num_leaves, max_depth, min_child_samples, min_child_hess}, widths);
}

// begin, end, feature, bin, missing bin, default left, first zero row of each node to divide.
auto next_batch(Frontier& frontier, double alpha, Vector<const int64_t> missing_bin) {
  const std::vector<int>& batch = frontier.next_batch(alpha);
  for (int id : batch) {
    const int feature = frontier.nodes()[id].split.feature;
    require(feature >= 0 && feature < static_cast<int64_t>(missing_bin.shape(0)), "feature out of range");
  }
  return to_numpy(frontier.division_plan(missing_bin.data()), {batch.size(), 7});
}

using Counts = std::pair<int64_t, int64_t>;  // active rows, zero rows

void start(Frontier& frontier, int64_t grad, int64_t hess, Counts all, Counts local) {
  frontier.start(grad, hess, {all.first, all.second}, {local.first, local.second});
}

// (active, zero) rows of each node that went left.
void divide(Frontier& frontier, Matrix<const int64_t> local_left, Matrix<const int64_t> all_left) {
  require(local_left.shape(0) == all_left.shape(0), "counts differ in length");
  require(local_left.shape(1) == 2 && all_left.shape(1) == 2, "counts of active and of zero rows");
  frontier.divide(reinterpret_cast<const RowCounts*>(local_left.data()), reinterpret_cast<const RowCounts*>(all_left.data()));
}

// The next plan, or None when every child is known.
std::optional<SearchPlan> next_search(Frontier& frontier) {
  SearchPlan plan;
  if (!frontier.next_search(plan)) return std::nullopt;
  return plan;
}

// A part of a plan as an array of that many columns (0: a vector).
template <class T, std::vector<T> SearchPlan::*Part, size_t Columns>
auto part_of(const SearchPlan& plan) {
  std::vector<T> values = plan.*Part;
  const size_t n = values.size();
  if constexpr (Columns == 0)
    return to_numpy(std::move(values), {n});
  else
    return to_numpy(std::move(values), {n / Columns, Columns});
}

void record(Frontier& frontier, Vector<const uint8_t> found) {
  require(found.shape(0) == frontier.n_searched() * sizeof(SplitInfo), "one SplitInfo per searched node");
  frontier.record(reinterpret_cast<const SplitInfo*>(found.data()));
}

// The fields of a GrownTree (grower.py), in their order; splits as bytes.
nb::tuple finish(const Frontier& frontier) {
  const std::vector<int>& taken = frontier.taken();
  const std::vector<FrontierNode>& nodes = frontier.nodes();
  std::vector<int> split_of(nodes.size(), -1);
  for (size_t i = 0; i < taken.size(); ++i) split_of[taken[i]] = static_cast<int>(i);
  std::vector<uint8_t> splits(taken.size() * sizeof(SplitInfo));
  std::array<std::vector<int32_t>, 2> links;  // left, right
  std::array<std::vector<int64_t>, 3> facts;  // rows, hess and left rows of each split
  std::array<std::vector<int64_t>, 4> leaves;  // begin, end, rows, (grad, hess) of each leaf
  const auto add_leaf = [&](const FrontierNode& leaf) {
    leaves[0].push_back(leaf.begin);
    leaves[1].push_back(leaf.begin + leaf.local.both());
    leaves[2].push_back(leaf.all.both());
    leaves[3].insert(leaves[3].end(), {leaf.grad, leaf.hess});
    return -static_cast<int32_t>(leaves[0].size());  // ~leaf
  };
  for (size_t i = 0; i < taken.size(); ++i) {
    const FrontierNode& node = nodes[taken[i]];
    reinterpret_cast<SplitInfo*>(splits.data())[i] = node.split;
    facts[0].push_back(node.all.both());
    facts[1].push_back(node.hess);
    facts[2].push_back(nodes[node.first_child].all.both());
    for (int side : {0, 1}) {
      const int child = node.first_child + side;
      links[side].push_back(split_of[child] >= 0 ? split_of[child] : add_leaf(nodes[child]));
    }
  }
  if (taken.empty()) add_leaf(nodes[0]);
  const size_t n = taken.size(), n_leaves = leaves[0].size(), n_bytes = splits.size();
  return nb::make_tuple(to_numpy(std::move(splits), {n_bytes}), to_numpy(std::move(links[0]), {n}),
                        to_numpy(std::move(links[1]), {n}), to_numpy(std::move(facts[0]), {n}),
                        to_numpy(std::move(facts[1]), {n}), to_numpy(std::move(facts[2]), {n}),
                        to_numpy(std::move(leaves[0]), {n_leaves}), to_numpy(std::move(leaves[1]), {n_leaves}),
                        to_numpy(std::move(leaves[2]), {n_leaves}), to_numpy(std::move(leaves[3]), {n_leaves, 2}));
}

}  // namespace

void init_frontier(nb::module_& m) {
  nb::class_<WidthLimits>(m, "WidthLimits")
      .def("__init__", [](WidthLimits* self, std::array<int64_t, 3> total_rows, std::array<int64_t, 4> local_rows,
                          int64_t block_rows, int64_t least_block_rows) {
        new (self) WidthLimits{total_rows, local_rows, block_rows, least_block_rows};
      })
      .def("total_width", &WidthLimits::total_width)
      .def("local", &WidthLimits::local);
  nb::class_<SearchPlan>(m, "SearchPlan")
      .def_prop_ro("builds", &part_of<int64_t, &SearchPlan::builds, 6>, nb::rv_policy::automatic)
      .def_prop_ro("subtractions", &part_of<int64_t, &SearchPlan::subtractions, 5>, nb::rv_policy::automatic)
      .def_prop_ro("slots", &part_of<int64_t, &SearchPlan::slots, 0>, nb::rv_policy::automatic)
      .def_prop_ro("widths", &part_of<int64_t, &SearchPlan::widths, 0>, nb::rv_policy::automatic)
      .def_prop_ro("sums", &part_of<double, &SearchPlan::sums, 3>, nb::rv_policy::automatic);
  nb::class_<Frontier>(m, "Frontier")
      .def("start", &start)
      .def("next_batch", &next_batch)
      .def("divide", &divide)
      .def("next_search", &next_search)
      .def("record", &record)
      .def("finish", &finish)
      .def_prop_ro("n_rounds", &Frontier::n_rounds)
      .def_prop_ro("widths_used", [](const Frontier& f) { return f.widths_used(); });
  m.def("make_frontier", &make_frontier);
}

}  // namespace bitgrove
