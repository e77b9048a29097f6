// One tree on the CPU for Python: each verb alone, and all rounds in one call.
#include "tree/cpu_tree.h"

#include <nanobind/stl/vector.h>

#include <utility>

#include "bindings/numpy_arrays.h"
#include "bindings/records.h"
#include "bindings/rooms.h"
#include "common/plan_checks.h"
#include "tree/rounds.h"

namespace bitgrove {
namespace {

using PackedRows = nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu, nb::ro>;

// The arrays a CpuTree looks into, held so that they live as long as it.
struct TreeArrays {
  Matrix<uint8_t> pool;
  Vector<const uint8_t> tiles;
  Matrix<const uint8_t> columns;
  Vector<int32_t> rows, scratch;
  PackedRows packed_rows;
  Vector<const int64_t> bin_offset;
  Vector<const uint8_t> has_missing, allowed, categorical;
  Vector<const int32_t> column_of;
  Matrix<uint8_t> marks;
};

// Rules of a training's splits, with the arrays they look into.
struct BoundRules {
  Vector<const int8_t> direction;
  Vector<const double> contribution;
  SplitRules rules;
};

struct BoundTree {
  TreeArrays arrays;
  nb::object layout, split_rules, sparse;
  CpuTree tree;
};

HistogramSource make_source(const TreeArrays& a, const TileLayout& layout, const SparseBins* sparse,
                            bool packed) {
  const auto n_rows = static_cast<int64_t>(a.packed_rows.shape(0));
  require(static_cast<int64_t>(a.tiles.shape(0)) == layout.n_bytes(n_rows),
          "packed rows differ in length from the tiles");
  const int row_width = static_cast<int>(a.packed_rows.itemsize()) * 4;
  require(row_width == 8 || row_width == 16 || row_width == 32, "packed rows of unknown width");
  return {&layout,
          {a.tiles.data(), n_rows, layout.n_columns()},
          a.rows.data(),
          static_cast<int64_t>(a.rows.shape(0)),
          a.packed_rows.data(),
          row_width,
          packed,
          sparse};
}

SplitFeatures make_features(const TreeArrays& a, const SparseBins* sparse) {
  const size_t n_features = a.has_missing.shape(0);
  require(a.bin_offset.shape(0) == n_features + 1 && a.allowed.shape(0) == n_features &&
              a.categorical.shape(0) == n_features && a.column_of.shape(0) == n_features,
          "feature arrays differ in length");
  const int n = static_cast<int>(n_features);
  return {a.bin_offset.data(),
          a.has_missing.data(),
          a.allowed.data(),
          0,
          a.categorical.data(),
          n,
          0,
          n,
          sparse ? sparse->all_implied() : nullptr};
}

// Every feature has a column of bins, or is in the lists of the same rows.
void check_columns(const TreeArrays& a, const SparseBins* sparse) {
  const auto n_features = static_cast<int64_t>(a.column_of.shape(0));
  for (int64_t f = 0; f < n_features; ++f)
    require(a.column_of(f) < static_cast<int64_t>(a.columns.shape(0)) &&
                (a.column_of(f) >= 0 || (sparse && sparse->has(f))),
            "a feature is nowhere");
  if (!sparse) return;
  require(sparse->is_prepared() && sparse->n_features() == n_features &&
              sparse->n_rows() == static_cast<int64_t>(a.packed_rows.shape(0)) &&
              sparse->n_bins() == a.bin_offset(n_features),
          "lists of other rows or features");
  require(static_cast<int64_t>(a.marks.shape(0)) == MARK_COLUMNS &&
              a.marks.shape(1) == a.columns.shape(1),
          "marks are columns");
}

PartitionSource make_division(const TreeArrays& a, const SparseBins* sparse) {
  require(a.scratch.shape(0) >= a.rows.shape(0), "scratch too small");
  return {a.rows.data(),
          static_cast<int64_t>(a.rows.shape(0)),
          a.scratch.data(),
          a.columns.data(),
          static_cast<int64_t>(a.has_missing.shape(0)),
          static_cast<int64_t>(a.columns.shape(1)),
          a.column_of.data(),
          sparse,
          a.marks.data()};
}

void make_tree(BoundTree* self, Matrix<uint8_t> pool, nb::object layout,
               Vector<const uint8_t> tiles, Matrix<const uint8_t> columns, Vector<int32_t> rows,
               Vector<int32_t> scratch, PackedRows packed_rows, Vector<const int64_t> bin_offset,
               Vector<const uint8_t> has_missing, Vector<const uint8_t> allowed,
               Vector<const uint8_t> categorical, const GainRules& rules, nb::object split_rules,
               Vector<const int32_t> column_of, nb::object sparse, Matrix<uint8_t> marks,
               bool packed, int n_threads, int simd) {
  TreeArrays arrays{pool,       tiles,       columns, rows,        scratch,   packed_rows,
                    bin_offset, has_missing, allowed, categorical, column_of, marks};
  const SparseBins* lists = sparse.is_none() ? nullptr : &nb::cast<const SparseBins&>(sparse);
  check_columns(arrays, lists);
  const PoolView slots{pool.data(), static_cast<int64_t>(pool.shape(0)),
                       static_cast<int64_t>(pool.shape(1))};
  SearchRules searched_by{rules};
  if (!split_rules.is_none()) {
    const auto& given = nb::cast<const BoundRules&>(split_rules);
    require(given.direction.shape(0) == has_missing.shape(0), "feature arrays differ in length");
    searched_by.split = &given.rules;
  }
  const CpuTree tree{slots,
                     make_source(arrays, nb::cast<const TileLayout&>(layout), lists, packed),
                     make_division(arrays, lists),
                     make_features(arrays, lists),
                     searched_by,
                     n_threads,
                     static_cast<Simd>(simd)};
  new (self) BoundTree{std::move(arrays), std::move(layout), std::move(split_rules),
                       std::move(sparse), tree};
}

void build(const BoundTree& self, const Records<Build>& builds) {
  nb::gil_scoped_release release;
  self.tree.build(builds.items);
}

void subtract(const BoundTree& self, const Records<Subtraction>& subtractions,
              std::pair<int64_t, int64_t> bins) {
  nb::gil_scoped_release release;
  self.tree.subtract(subtractions.items, {bins.first, bins.second});
}

RecordArray find(const BoundTree& self, const Records<SearchNode>& nodes,
                 std::pair<int, int> features, std::optional<Matrix<const uint8_t>> allowed) {
  const auto [first, last] = features;
  check_features(first, last, self.tree.features.n_features);
  return to_records(self.tree.find(nodes.items, first, last, flags_of(allowed)));
}

RecordArray search(const BoundTree& self, const SearchPlan& plan) {
  std::vector<SplitInfo> found;
  {
    nb::gil_scoped_release release;
    found = self.tree.search(plan);
  }
  return to_records(found);
}

RecordArray divide(const BoundTree& self, const Records<Division>& divisions) {
  std::vector<RowCounts> left;
  {
    nb::gil_scoped_release release;
    left = self.tree.divide(divisions.items);
  }
  return to_records(left);
}

void grow(const BoundTree& self, Frontier& frontier, double alpha,
          Vector<const int64_t> missing_bin) {
  require(static_cast<int>(missing_bin.shape(0)) == self.tree.features.n_features,
          "missing bins differ in length");
  nb::gil_scoped_release release;
  grow_rounds(self.tree, frontier, alpha, missing_bin.data());
}

}  // namespace

void init_tree(nb::module_& m) {
  m.attr("MARK_COLUMNS") = MARK_COLUMNS;
  m.attr("NO_MARK") = NO_MARK;
  nb::class_<GainRules>(m, "GainRules", "What turns integer sums into a gain.")
      .def(
          "__init__",
          [](GainRules* self, double grad_scale, double hess_scale, double reg_lambda,
             double reg_alpha, double min_gain, double cat_smooth, double cat_l2,
             double min_data_per_group, double max_cat_threshold, double max_cat_to_onehot) {
            new (self) GainRules{
                grad_scale, hess_scale, reg_lambda,         reg_alpha,         min_gain,
                cat_smooth, cat_l2,     min_data_per_group, max_cat_threshold, max_cat_to_onehot};
          },
          "grad_scale"_a, "hess_scale"_a, "reg_lambda"_a, "reg_alpha"_a, "min_gain"_a,
          "cat_smooth"_a, "cat_l2"_a, "min_data_per_group"_a, "max_cat_threshold"_a,
          "max_cat_to_onehot"_a);
  nb::class_<BoundRules>(m, "SplitRules", "Rules of splits beside their gain; see rules.h.")
      .def(
          "__init__",
          [](BoundRules* self, Vector<const int8_t> direction, Vector<const double> contribution,
             double path_smooth, bool extra_trees) {
            require(direction.shape(0) == contribution.shape(0), "feature arrays differ in length");
            new (self) BoundRules{direction,
                                  contribution,
                                  {direction.data(), contribution.data(), path_smooth,
                                   static_cast<int64_t>(extra_trees)}};
          },
          "direction"_a, "contribution"_a, "path_smooth"_a, "extra_trees"_a);
  nb::class_<BoundTree>(m, "CpuTree", "One tree on the CPU: the verbs on its arrays.")
      .def("__init__", &make_tree, "pool"_a, "layout"_a, "tiles"_a, "columns"_a, "rows"_a,
           "scratch"_a, "packed_rows"_a, "bin_offset"_a, "has_missing"_a, "allowed"_a,
           "categorical"_a, "rules"_a, "split_rules"_a = nb::none(), "column_of"_a = nb::none(),
           "sparse"_a = nb::none(), "marks"_a = nb::none(), "packed"_a = true, "n_threads"_a = 1,
           "simd"_a = 0)
      .def("build", &build, "builds"_a, "Sums rows into slots.")
      .def("subtract", &subtract, "subtractions"_a, "bins"_a,
           "Takes built slots from their parents', within the bins [first, last).")
      .def("find", &find, "nodes"_a, "features"_a, "allowed"_a = nb::none(),
           "The best split of each node among the features [first, last), and of those its row of "
           "`allowed`, if there is one, else the tree's.")
      .def("search", &search, "plan"_a, "Builds, subtracts and finds: a whole SearchPlan.")
      .def("divide", &divide, "divisions"_a, "Divides the rows of nodes; the RowCounts gone left.")
      .def("grow", &grow, "frontier"_a, "alpha"_a, "missing_bin"_a, "All rounds of a tree.");
}

}  // namespace bitgrove
