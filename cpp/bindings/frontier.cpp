// Frontier for Python: plans out, findings in.
#include "tree/frontier.h"

#include <optional>

#include "bindings/numpy_arrays.h"
#include "bindings/rooms.h"

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
    require(feature >= 0 && feature < static_cast<int64_t>(missing_bin.shape(0)),
            "feature out of range");
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
  frontier.divide(reinterpret_cast<const RowCounts*>(local_left.data()),
                  reinterpret_cast<const RowCounts*>(all_left.data()));
}

// The next plan, or None when every child is known.
std::optional<SearchPlan> next_search(Frontier& frontier) {
  SearchPlan plan;
  if (!frontier.next_search(plan)) return std::nullopt;
  return plan;
}

// A part of a plan as an array of that many columns (0: a vector).
template <class T, std::vector<T> SearchPlan::* Part, size_t Columns>
auto part_of(const SearchPlan& plan) {
  std::vector<T> values = plan.*Part;
  const size_t n = values.size();
  if constexpr (Columns == 0)
    return to_numpy(std::move(values), {n});
  else
    return to_numpy(std::move(values), {n / Columns, Columns});
}

void record(Frontier& frontier, Vector<const uint8_t> found) {
  require(found.shape(0) == frontier.n_searched() * sizeof(SplitInfo),
          "one SplitInfo per searched node");
  frontier.record(reinterpret_cast<const SplitInfo*>(found.data()));
}

// What a split of a finished tree needs to know of the features.
struct CutTables {
  const double* cut_values;
  const int64_t* cut_offset;
  const uint8_t* has_missing;
};

// The splits of a GrownTree, one array per field.
struct GrownSplits {
  std::vector<int32_t> feature, left, right;
  std::vector<uint8_t> bin, default_left;
  std::vector<double> threshold, gain, hess;
  std::vector<int64_t> rows;

  void add(const FrontierNode& node, int64_t left_rows, const CutTables& cuts, double hess_scale) {
    const SplitInfo& split = node.split;
    // Where training had no missing value, missing goes with the majority.
    const bool majority_left = 2 * left_rows >= node.all.both();
    feature.push_back(split.feature);
    bin.push_back(static_cast<uint8_t>(split.bin));
    threshold.push_back(cuts.cut_values[cuts.cut_offset[split.feature] + split.bin]);
    default_left.push_back(cuts.has_missing[split.feature] ? split.default_left : majority_left);
    gain.push_back(split.gain);
    rows.push_back(node.all.both());
    hess.push_back(static_cast<double>(node.hess) * hess_scale);
  }
};

struct GrownLeaves {
  std::vector<int64_t> rows, begin, end, sums;  // sums: gradient and hessian of each leaf

  // Returns ~leaf.
  int32_t add(const FrontierNode& leaf) {
    rows.push_back(leaf.all.both());
    begin.push_back(leaf.begin);
    end.push_back(leaf.begin + leaf.local.both());
    sums.insert(sums.end(), {leaf.grad, leaf.hess});
    return -static_cast<int32_t>(rows.size());
  }
};

template <class T>
auto whole(std::vector<T>& values) {
  const size_t n = values.size();
  return to_numpy(std::move(values), {n});
}

// The fields of a GrownTree (grower.py), in their order.
nb::tuple finish(const Frontier& frontier, Vector<const double> cut_values,
                 Vector<const int64_t> cut_offset, Vector<const uint8_t> has_missing,
                 double hess_scale) {
  require(cut_offset.shape(0) == has_missing.shape(0) + 1 &&
              cut_offset(has_missing.shape(0)) == static_cast<int64_t>(cut_values.shape(0)),
          "cut tables differ in length");
  const std::vector<int>& taken = frontier.taken();
  const std::vector<FrontierNode>& nodes = frontier.nodes();
  const CutTables cuts{cut_values.data(), cut_offset.data(), has_missing.data()};
  std::vector<int> split_of(nodes.size(), -1);
  for (size_t i = 0; i < taken.size(); ++i) split_of[taken[i]] = static_cast<int>(i);
  GrownSplits splits;
  GrownLeaves leaves;
  for (int id : taken) {
    const FrontierNode& node = nodes[id];
    const SplitInfo& split = node.split;
    require(0 <= split.feature && split.feature < static_cast<int64_t>(has_missing.shape(0)) &&
                0 <= split.bin &&
                split.bin < cut_offset(split.feature + 1) - cut_offset(split.feature),
            "split out of range");
    splits.add(node, nodes[node.first_child].all.both(), cuts, hess_scale);
    for (auto [links, child] : {std::pair{&splits.left, node.first_child},
                                std::pair{&splits.right, node.first_child + 1}})
      links->push_back(split_of[child] >= 0 ? split_of[child] : leaves.add(nodes[child]));
  }
  if (taken.empty()) leaves.add(nodes[0]);
  const size_t n_leaves = leaves.rows.size();
  return nb::make_tuple(whole(splits.feature), whole(splits.bin), whole(splits.threshold),
                        whole(splits.default_left), whole(splits.left), whole(splits.right),
                        whole(splits.gain), whole(splits.rows), whole(splits.hess),
                        whole(leaves.rows), whole(leaves.begin), whole(leaves.end),
                        to_numpy(std::move(leaves.sums), {n_leaves, 2}));
}

}  // namespace

void init_frontier(nb::module_& m) {
  nb::class_<WidthLimits>(m, "WidthLimits")
      .def("__init__",
           [](WidthLimits* self, std::array<int64_t, 3> total_rows,
              std::array<int64_t, 4> local_rows, int64_t block_rows, int64_t least_block_rows) {
             new (self) WidthLimits{total_rows, local_rows, block_rows, least_block_rows};
           })
      .def("total_width", &WidthLimits::total_width)
      .def("local", &WidthLimits::local);
  nb::class_<SearchPlan>(m, "SearchPlan")
      .def_prop_ro("builds", &part_of<int64_t, &SearchPlan::builds, 6>, nb::rv_policy::automatic)
      .def_prop_ro("subtractions", &part_of<int64_t, &SearchPlan::subtractions, 5>,
                   nb::rv_policy::automatic)
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
