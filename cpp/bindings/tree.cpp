// Histograms and splits for Python: each verb alone, and all rounds of a tree in one call.
#include <optional>
#include <utility>
#include <vector>

#include "bindings/numpy_arrays.h"
#include "bindings/rooms.h"
#include "tree/frontier.h"
#include "tree/histogram.h"
#include "tree/partition.h"
#include "tree/rounds.h"
#include "tree/splits.h"

namespace bitgrove {
namespace {

using PackedRows = nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu, nb::ro>;

PlanView view(const Matrix<const int64_t>& plan) {
  return {plan.data(), static_cast<int64_t>(plan.shape(0)), static_cast<int64_t>(plan.shape(1))};
}

PoolView view(const Matrix<uint8_t>& pool) {
  return {pool.data(), static_cast<int64_t>(pool.shape(0)), static_cast<int64_t>(pool.shape(1))};
}

HistogramSource make_source(const TileLayout& layout, Vector<const uint8_t> tiles,
                            Vector<const int32_t> rows, PackedRows packed_rows, bool packed) {
  const auto n_rows = static_cast<int64_t>(packed_rows.shape(0));
  require(static_cast<int64_t>(tiles.shape(0)) == layout.n_bytes(n_rows),
          "packed rows differ in length from the tiles");
  const int row_width = static_cast<int>(packed_rows.itemsize()) * 4;
  require(row_width == 8 || row_width == 16 || row_width == 32, "packed rows of unknown width");
  return {&layout,
          {tiles.data(), n_rows, layout.n_columns()},
          rows.data(),
          static_cast<int64_t>(rows.shape(0)),
          packed_rows.data(),
          row_width,
          packed};
}

SplitFeatures make_features(Vector<const int64_t> bin_offset, Vector<const uint8_t> has_missing,
                            Vector<const uint8_t> allowed, std::pair<int, int> range) {
  const int n_features = static_cast<int>(bin_offset.shape(0)) - 1;
  const auto [first, last] = range;
  require(0 <= first && first <= last && last <= n_features, "bad feature range");
  require(static_cast<int>(has_missing.shape(0)) == n_features &&
              static_cast<int>(allowed.shape(0)) == n_features,
          "feature arrays differ in length");
  return {bin_offset.data(), has_missing.data(), allowed.data(), n_features, first, last};
}

GainRules make_rules(const std::array<double, 5>& rules) {
  return {rules[0], rules[1], rules[2], rules[3], rules[4]};
}

void build(Matrix<uint8_t> pool, const TileLayout& layout, Vector<const uint8_t> tiles,
           Vector<const int32_t> rows, PackedRows packed_rows, Matrix<const int64_t> plan,
           bool packed, int n_threads, int simd) {
  const HistogramSource source = make_source(layout, tiles, rows, packed_rows, packed);
  nb::gil_scoped_release release;
  build_histograms(view(plan), view(pool), source, n_threads, static_cast<Simd>(simd));
}

void subtract(Matrix<uint8_t> pool, Matrix<const int64_t> plan, int64_t first, int64_t last,
              bool packed, int n_threads, int simd) {
  nb::gil_scoped_release release;
  subtract_histograms(view(plan), view(pool), {first, last}, packed, n_threads,
                      static_cast<Simd>(simd));
}

// slots, widths, sums: per node. rules: grad_scale, hess_scale, reg_lambda, reg_alpha, min_gain.
auto find(Matrix<uint8_t> pool, Vector<const int64_t> slots, Vector<const int64_t> widths,
          Matrix<const double> sums, Vector<const int64_t> bin_offset,
          Vector<const uint8_t> has_missing, Vector<const uint8_t> allowed,
          std::pair<int, int> range, std::array<double, 5> rules, bool packed, int n_threads,
          int simd) {
  const size_t n_nodes = slots.shape(0);
  require(widths.shape(0) == n_nodes && sums.shape(0) == n_nodes && sums.shape(1) == 3,
          "node arrays differ in length");
  const SplitFeatures features = make_features(bin_offset, has_missing, allowed, range);
  const SearchedNodes nodes{static_cast<int64_t>(n_nodes), slots.data(), widths.data(),
                            sums.data()};
  std::vector<uint8_t> found(n_nodes * sizeof(SplitInfo));
  find_splits(nodes, view(pool), features, make_rules(rules), packed,
              reinterpret_cast<SplitInfo*>(found.data()), n_threads, static_cast<Simd>(simd));
  return to_numpy(std::move(found), {n_nodes * sizeof(SplitInfo)});
}

// One tree on the CPU. The views do not own: Python keeps the arrays.
class TreeSearch {
 public:
  TreeSearch(Matrix<uint8_t> pool, const TileLayout& layout, Vector<const uint8_t> tiles,
             Vector<const int32_t> rows, PackedRows packed_rows, Vector<const int64_t> bin_offset,
             Vector<const uint8_t> has_missing, Vector<const uint8_t> allowed,
             std::array<double, 5> rules, bool packed, int n_threads, int simd)
      : pool_(view(pool)),
        source_(make_source(layout, tiles, rows, packed_rows, packed)),
        features_(make_features(bin_offset, has_missing, allowed,
                                {0, static_cast<int>(bin_offset.shape(0)) - 1})),
        rules_(make_rules(rules)),
        n_threads_(n_threads),
        simd_(static_cast<Simd>(simd)) {}

  std::vector<SplitInfo> search(const SearchPlan& plan) const {
    const int64_t n_builds = plan.builds.size() / 6, n_steps = plan.subtractions.size() / 5,
                  n = plan.slots.size();
    const BinRange bins{0, features_.bin_offset[features_.n_features]};
    std::vector<SplitInfo> found(n);
    build_histograms({plan.builds.data(), n_builds, 6}, pool_, source_, n_threads_, simd_);
    subtract_histograms({plan.subtractions.data(), n_steps, 5}, pool_, bins, source_.packed,
                        n_threads_, simd_);
    find_splits({n, plan.slots.data(), plan.widths.data(), plan.sums.data()}, pool_, features_,
                rules_, source_.packed, found.data(), n_threads_, simd_);
    return found;
  }

  std::vector<RowCounts> partition(const std::vector<int64_t>& plan) const {
    return partition_rows({plan.data(), static_cast<int64_t>(plan.size()) / 7, 7}, division_,
                          n_threads_, simd_);
  }

  void grow(Frontier& frontier, double alpha, Vector<int32_t> rows, Vector<int32_t> scratch,
            Matrix<const uint8_t> columns, Vector<const int64_t> missing_bin) {
    require(static_cast<int64_t>(rows.shape(0)) == source_.n_listed &&
                scratch.shape(0) >= rows.shape(0) &&
                static_cast<int>(columns.shape(0)) == features_.n_features &&
                static_cast<int>(missing_bin.shape(0)) == features_.n_features,
            "arrays differ in length");
    division_ = {rows.data(),    source_.n_listed,     scratch.data(),
                 columns.data(), features_.n_features, static_cast<int64_t>(columns.shape(1))};
    nb::gil_scoped_release release;
    grow_rounds(*this, frontier, alpha, missing_bin.data());
  }

 private:
  PoolView pool_;
  HistogramSource source_;
  PartitionSource division_{};
  SplitFeatures features_;
  GainRules rules_;
  int n_threads_;
  Simd simd_;
};

}  // namespace

void init_search(nb::module_& m) {
  m.def("build_histograms", &build);
  m.def("subtract_histograms", &subtract);
  m.def("find_splits", &find);
  nb::class_<TreeSearch>(m, "TreeSearch")
      .def(nb::init<Matrix<uint8_t>, const TileLayout&, Vector<const uint8_t>,
                    Vector<const int32_t>, PackedRows, Vector<const int64_t>, Vector<const uint8_t>,
                    Vector<const uint8_t>, std::array<double, 5>, bool, int, int>())
      .def("grow", &TreeSearch::grow);
}

}  // namespace bitgrove
