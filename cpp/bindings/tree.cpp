// One tree on the CPU for Python: each verb alone, and all rounds in one call.
#include "tree/cpu_tree.h"

#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "bindings/gil.h"
#include "bindings/numpy_arrays.h"
#include "bindings/records.h"
#include "bindings/rooms.h"
#include "common/plan_checks.h"
#include "growth/rounds.h"

namespace bitgrove {
namespace {

using PackedRows = GivenArray<nb::ndim<1>, nb::ro>;

// What the trees of a training share: slots for histograms, and the bins in their layouts; held so
// that they live as long as the trees.
struct BoundPool {
  Matrix<uint8_t> storage;
  nb::object layout;
  Vector<const uint8_t> tiles;
  Matrix<const uint8_t> columns;
  Vector<const int64_t> bin_offset;
  Vector<const uint8_t> has_missing, kinds;
  Vector<const int32_t> column_of;
  nb::object sparse;
  Matrix<uint8_t> marks;
  std::shared_ptr<const Strips> strips;

  PoolView slots() const {
    return {storage.data(), static_cast<int64_t>(storage.shape(0)),
            static_cast<int64_t>(storage.shape(1))};
  }
  const SparseBins* lists() const {
    return sparse.is_none() ? nullptr : &nb::cast<const SparseBins&>(sparse);
  }
  // Whether slots have room for the features in lists, too.
  bool has_all_bins() const {
    return sparse.is_none() || lists()->n_bins() == bin_offset(bin_offset.shape(0) - 1);
  }
};

// The arrays of one tree.
struct TreeArrays {
  Vector<int32_t> rows, scratch;
  PackedRows packed_rows;
  Vector<const uint8_t> allowed;
};

// Rules of a training's splits, with the arrays they look into.
struct BoundRules {
  Vector<const int8_t> direction;
  Vector<const double> contribution;
  SplitRules rules;
};

struct BoundTree {
  nb::object pool, split_rules;
  TreeArrays arrays;
  CpuTree tree;
};

// Every feature has a column of bins, or is in the lists of the same rows.
void check_columns(const BoundPool& pool) {
  const auto n_features = static_cast<int64_t>(pool.column_of.shape(0));
  const SparseBins* lists = pool.lists();
  for (int64_t f = 0; f < n_features; ++f)
    require(pool.column_of(f) < static_cast<int64_t>(pool.columns.shape(0)) &&
                (pool.column_of(f) >= 0 || (lists && lists->has(f))),
            "a feature is nowhere");
  if (!lists) return;
  require(lists->is_prepared() && lists->n_features() == n_features &&
              (pool.has_all_bins() || lists->by_postings()),
          "lists of other features");
  require(static_cast<int64_t>(pool.marks.shape(0)) == MARK_COLUMNS &&
              pool.marks.shape(1) == pool.columns.shape(1),
          "marks are columns");
}

void make_pool(BoundPool* self, const Matrix<uint8_t>& storage, nb::object layout,
               const Vector<const uint8_t>& tiles, const Matrix<const uint8_t>& columns,
               const Vector<const int64_t>& bin_offset, const Vector<const uint8_t>& has_missing,
               const Vector<const uint8_t>& kinds, const Vector<const int32_t>& column_of,
               nb::object sparse, const Matrix<uint8_t>& marks, int n_threads) {
  const auto& tiles_of = nb::cast<const TileLayout&>(layout);
  const size_t n_features = has_missing.shape(0);
  require(bin_offset.shape(0) == n_features + 1 && kinds.shape(0) == n_features &&
              column_of.shape(0) == n_features,
          "feature arrays differ in length");
  BoundPool pool{storage,   std::move(layout), tiles, columns, bin_offset, has_missing, kinds,
                 column_of, std::move(sparse), marks, {}};
  check_columns(pool);
  pool.strips = std::make_shared<Strips>(tiles_of, bin_offset.data(), static_cast<int>(n_features),
                                         n_threads);
  new (self) BoundPool(pool);
}

HistogramSource make_source(const BoundPool& pool, const TreeArrays& a, bool packed) {
  const auto& layout = nb::cast<const TileLayout&>(pool.layout);
  const SparseBins* lists = pool.lists();
  const auto n_rows = static_cast<int64_t>(a.packed_rows.shape(0));
  require(static_cast<int64_t>(pool.tiles.shape(0)) == layout.n_bytes(n_rows) &&
              (!lists || lists->n_rows() == n_rows),
          "packed rows differ in length from the tiles");
  const int row_width = static_cast<int>(a.packed_rows.itemsize()) * 4;
  require(row_width == 8 || row_width == 16 || row_width == 32, "packed rows of unknown width");
  return {&layout,
          {pool.tiles.data(), n_rows, layout.n_columns()},
          a.rows.data(),
          static_cast<int64_t>(a.rows.shape(0)),
          a.packed_rows.data(),
          row_width,
          packed,
          lists};
}

SplitFeatures make_features(const BoundPool& pool, const TreeArrays& a) {
  require(a.allowed.shape(0) == pool.has_missing.shape(0), "feature arrays differ in length");
  const int n = static_cast<int>(a.allowed.shape(0));
  const SparseBins* lists = pool.lists();
  return {pool.bin_offset.data(),
          pool.has_missing.data(),
          a.allowed.data(),
          0,
          pool.kinds.data(),
          n,
          0,
          n,
          lists ? lists->all_implied() : nullptr};
}

PartitionSource make_division(const BoundPool& pool, const TreeArrays& a) {
  require(a.scratch.shape(0) >= a.rows.shape(0), "scratch too small");
  return {a.rows.data(),
          static_cast<int64_t>(a.rows.shape(0)),
          a.scratch.data(),
          pool.columns.data(),
          static_cast<int64_t>(pool.has_missing.shape(0)),
          static_cast<int64_t>(pool.columns.shape(1)),
          pool.column_of.data(),
          pool.lists(),
          pool.marks.data()};
}

void make_tree(BoundTree* self, nb::object pool, const Vector<int32_t>& rows,
               const Vector<int32_t>& scratch, const PackedRows& packed_rows,
               const Vector<const uint8_t>& allowed, const GainRules& rules, nb::object split_rules,
               bool packed, int n_threads, int simd) {
  const TreeArrays arrays{rows, scratch, packed_rows, allowed};
  const auto& shared = nb::cast<const BoundPool&>(pool);
  SearchRules searched_by{rules};
  if (!split_rules.is_none()) {
    const auto& given = nb::cast<const BoundRules&>(split_rules);
    require(given.direction.shape(0) == allowed.shape(0), "feature arrays differ in length");
    searched_by.split = &given.rules;
  }
  const CpuTree tree{shared.slots(),
                     make_source(shared, arrays, packed),
                     make_division(shared, arrays),
                     make_features(shared, arrays),
                     searched_by,
                     shared.strips.get(),
                     n_threads,
                     static_cast<Simd>(simd)};
  new (self) BoundTree{std::move(pool), std::move(split_rules), arrays, tree};
}

void build(const BoundTree& self, const Records<Build>& builds) {
  WithoutGil released;
  self.tree.build(builds.items);
}

void subtract(const BoundTree& self, const Records<Subtraction>& subtractions,
              std::pair<int64_t, int64_t> bins) {
  WithoutGil released;
  self.tree.subtract(subtractions.items, {bins.first, bins.second});
}

RecordArray find(const BoundTree& self, const Records<SearchNode>& nodes,
                 std::pair<int, int> features,
                 const std::optional<Matrix<const uint8_t>>& allowed) {
  const auto [first, last] = features;
  check_features(first, last, self.tree.features.n_features);
  require(nb::cast<const BoundPool&>(self.pool).has_all_bins(), "some features have no slots");
  return to_records(self.tree.find(nodes.items, first, last, flags_of(allowed)));
}

RecordArray search(const BoundTree& self, const SearchPlan& plan) {
  std::vector<SplitInfo> found;
  {
    WithoutGil released;
    found = self.tree.search(plan);
  }
  return to_records(found);
}

RecordArray divide(const BoundTree& self, const Records<Division>& divisions) {
  std::vector<RowCounts> left;
  {
    WithoutGil released;
    left = self.tree.divide(divisions.items);
  }
  return to_records(left);
}

void grow(const BoundTree& self, Frontier& frontier, double alpha,
          const Vector<const int64_t>& missing_bin) {
  require(static_cast<int>(missing_bin.shape(0)) == self.tree.features.n_features,
          "missing bins differ in length");
  WithoutGil released;
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
          [](BoundRules* self, const Vector<const int8_t>& direction,
             const Vector<const double>& contribution, double path_smooth, bool extra_trees) {
            require(direction.shape(0) == contribution.shape(0), "feature arrays differ in length");
            new (self) BoundRules{direction,
                                  contribution,
                                  {direction.data(), contribution.data(), path_smooth,
                                   static_cast<int64_t>(extra_trees)}};
          },
          "direction"_a, "contribution"_a, "path_smooth"_a, "extra_trees"_a);
  nb::class_<BoundPool>(m, "CpuPool", "Slots for histograms, and the bins they are made of.")
      .def("__init__", &make_pool, "storage"_a, "layout"_a, "tiles"_a, "columns"_a, "bin_offset"_a,
           "has_missing"_a, "kinds"_a, "column_of"_a, "sparse"_a.none(), "marks"_a, "n_threads"_a);
  nb::class_<BoundTree>(m, "CpuTree", "One tree on the CPU: the verbs on its arrays.")
      .def("__init__", &make_tree, "pool"_a, "rows"_a, "scratch"_a, "packed_rows"_a, "allowed"_a,
           "rules"_a, "split_rules"_a.none(), "packed"_a, "n_threads"_a, "simd"_a)
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
