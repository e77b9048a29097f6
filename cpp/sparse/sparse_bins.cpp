// Makes the lists of a sparse table: values to positions, and the postings of a training set.
#include "sparse/sparse_bins.h"

#include <algorithm>
#include <atomic>

#include "common/parallel.h"
#include "layouts.h"

namespace bitgrove {
namespace {

constexpr int64_t ROWS_OF_TASK = 1024;

// The edges of the features, and where their bins go.
class Binner {
 public:
  explicit Binner(const BinTargets& targets) : targets_(targets) {}

  // The number of edges below the value; the missing bin of NaN.
  int bin(int64_t feature, double x) const {
    const double* edges = targets_.edge_values + targets_.edge_offset[feature];
    const int64_t n = n_edges(feature);
    if (x != x) return static_cast<int>(n + 1);
    return static_cast<int>(std::lower_bound(edges, edges + n, x) - edges);
  }
  int64_t n_edges(int64_t feature) const {
    return targets_.edge_offset[feature + 1] - targets_.edge_offset[feature];
  }

 private:
  const BinTargets& targets_;
};

// Marks the features with missing values, and counts the values of each that are in lists.
void look_at_values(const SparseTable& table, const BinTargets& targets,
                    std::vector<int64_t>& n_values_of, int n_threads) {
  std::atomic<bool> any{false};
  parallel_rows(table.n_values(), n_threads, [&](int64_t begin, int64_t end) {
    bool here = false;
    for (int64_t k = begin; k < end; ++k) here |= table.value(k) != table.value(k);
    if (here) any = true;
  });
  for (int64_t list = 0; list < table.n_lists(); ++list)
    for (int64_t k = table.begin(list); k < table.end(list); ++k) {
      const int32_t feature = targets.feature_of[table.by_rows() ? table.index(k) : list];
      if (feature < 0) continue;
      if (targets.column_of[feature] < 0) ++n_values_of[feature];
      if (any && table.value(k) != table.value(k)) targets.missing[feature] = 1;
    }
}

int length_of(int64_t gap) {
  int n = 1;
  for (; gap >= 128; gap >>= 7) ++n;
  return n;
}

}  // namespace

SparseBins::SparseBins(const SparseTable& table, const BinTargets& targets, int n_threads)
    : offset_(targets.n_features + 1),
      implied_(targets.n_features, -1),
      n_values_of_(targets.n_features),
      row_begin_(table.n_rows() + 1) {
  table.check(n_threads);
  look_at_values(table, targets, n_values_of_, n_threads);
  const Binner binner(targets);
  for (int64_t f = 0; f < targets.n_features; ++f)
    offset_[f + 1] = offset_[f] + binner.n_edges(f) + 1 + (targets.missing[f] ? 1 : 0);
  require(offset_.back() <= UINT32_MAX, "too many bins");
  for (int64_t column = 0; column < table.n_columns(); ++column) {
    const int32_t f = targets.feature_of[column];
    if (f < 0) continue;
    const int zero = binner.bin(f, 0.0);
    if (targets.column_of[f] >= 0) {
      std::fill_n(targets.dense + targets.column_of[f] * targets.dense_stride, table.n_rows(),
                  static_cast<uint8_t>(zero));
    } else {
      implied_[f] = offset_[f] + zero;
      features_.push_back(f);
    }
  }
  std::sort(features_.begin(), features_.end());
  table.by_rows() ? lay_rows(table, targets, n_threads) : lay_columns(table, targets, n_threads);
}

void SparseBins::lay_rows(const SparseTable& table, const BinTargets& targets, int n_threads) {
  const Binner binner(targets);
  const int64_t n_rows = table.n_rows(), n_tasks = blocks_of(n_rows, ROWS_OF_TASK);
  const auto for_rows = [&](auto&& work) {
    parallel_tasks(n_tasks, n_threads, [&](int64_t task) {
      const int64_t last = std::min((task + 1) * ROWS_OF_TASK, n_rows);
      for (int64_t row = task * ROWS_OF_TASK; row < last; ++row) work(row);
    });
  };
  for_rows([&](int64_t row) {
    int64_t n = 0;
    for (int64_t k = table.begin(row); k < table.end(row); ++k) {
      const int32_t f = targets.feature_of[table.index(k)];
      n += f >= 0 && targets.column_of[f] < 0;
    }
    row_begin_[row + 1] = n;
  });
  for (int64_t row = 0; row < n_rows; ++row) row_begin_[row + 1] += row_begin_[row];
  positions_ = std::unique_ptr<uint32_t[]>(new uint32_t[row_begin_.back()]);
  for_rows([&](int64_t row) {
    uint32_t* to = positions_.get() + row_begin_[row];
    for (int64_t k = table.begin(row); k < table.end(row); ++k) {
      const int32_t f = targets.feature_of[table.index(k)];
      if (f < 0) continue;
      const int bin = binner.bin(f, table.value(k));
      if (targets.column_of[f] < 0)
        *to++ = static_cast<uint32_t>(offset_[f] + bin);
      else
        targets.dense[targets.column_of[f] * targets.dense_stride + row] =
            static_cast<uint8_t>(bin);
    }
  });
}

// Each thread looks at all values and writes those of its own rows.
void SparseBins::lay_columns(const SparseTable& table, const BinTargets& targets, int n_threads) {
  const Binner binner(targets);
  const int64_t n_rows = table.n_rows(), n_parts = std::max(1, n_threads);
  const auto for_parts = [&](auto&& work) {
    parallel_tasks(n_parts, n_threads, [&](int64_t part) {
      const int64_t first = n_rows * part / n_parts, last = n_rows * (part + 1) / n_parts;
      for (int64_t column = 0; column < table.n_columns(); ++column) {
        const int32_t f = targets.feature_of[column];
        if (f < 0) continue;
        for (int64_t k = table.begin(column); k < table.end(column); ++k) {
          const int64_t row = table.index(k);
          if (row >= first && row < last) work(f, row, k);
        }
      }
    });
  };
  for_parts(
      [&](int32_t f, int64_t row, int64_t) { row_begin_[row + 1] += targets.column_of[f] < 0; });
  for (int64_t row = 0; row < n_rows; ++row) row_begin_[row + 1] += row_begin_[row];
  positions_ = std::unique_ptr<uint32_t[]>(new uint32_t[row_begin_.back()]);
  std::vector<int64_t> place(row_begin_.begin(), row_begin_.end() - 1);
  for_parts([&](int32_t f, int64_t row, int64_t k) {
    const int bin = binner.bin(f, table.value(k));
    if (targets.column_of[f] < 0)
      positions_[place[row]++] = static_cast<uint32_t>(offset_[f] + bin);
    else
      targets.dense[targets.column_of[f] * targets.dense_stride + row] = static_cast<uint8_t>(bin);
  });
}

void SparseBins::prepare(std::span<const int64_t> bin_offset, int n_threads) {
  require(bin_offset.size() == offset_.size(), "bin offsets differ in length");
  if (!std::equal(offset_.begin(), offset_.end(), bin_offset.begin()))
    renumber(bin_offset, n_threads);
  count_postings(n_threads);
  write_postings(n_threads);
  implied_beside_.assign(n_bins(), 0);
  for (const int32_t f : features_)
    std::fill(implied_beside_.begin() + offset_[f], implied_beside_.begin() + offset_[f + 1],
              static_cast<uint32_t>(implied_[f]));
}

// Other ranks have missing values where this one has none.
void SparseBins::renumber(std::span<const int64_t> bin_offset, int n_threads) {
  std::vector<uint32_t> wanted(n_bins());
  for (int64_t f = 0; f < n_features(); ++f) {
    const int64_t n = offset_[f + 1] - offset_[f];
    require(bin_offset[f + 1] - bin_offset[f] >= n, "a feature has fewer bins than values need");
    for (int64_t b = 0; b < n; ++b)
      wanted[offset_[f] + b] = static_cast<uint32_t>(bin_offset[f] + b);
    if (implied_[f] >= 0) implied_[f] += bin_offset[f] - offset_[f];
  }
  require(bin_offset.back() <= UINT32_MAX, "too many bins");
  parallel_rows(n_values(), n_threads, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) positions_[k] = wanted[positions_[k]];
  });
  offset_.assign(bin_offset.begin(), bin_offset.end());
}

int SparseBins::other_bin(int64_t feature) const {
  if (offset_[feature + 1] - offset_[feature] != 2) return -1;
  return implied_[feature] == offset_[feature] ? 1 : 0;
}

int64_t SparseBins::n_bytes() const {
  const int64_t n_postings = posting_begin_.empty() ? 0 : posting_begin_.back();
  return 4 * n_values() + 8 * static_cast<int64_t>(row_begin_.size()) + n_postings;
}

namespace {

// The feature of each position, to be looked up where a list of a row is read.
std::vector<int32_t> features_by_position(const SparseBins& bins) {
  std::vector<int32_t> feature(bins.n_bins());
  for (int64_t f = 0; f < bins.n_features(); ++f)
    std::fill(feature.begin() + bins.offset(f),
              f + 1 < bins.n_features() ? feature.begin() + bins.offset(f + 1) : feature.end(),
              static_cast<int32_t>(f));
  return feature;
}

// Calls visit(feature, row, bin) for the values that are not in the implied bin, rows in order;
// each thread those of some features, which are one part of the positions.
template <class Visit>
void for_each_posting(const SparseBins& bins, int n_threads, Visit&& visit) {
  const std::vector<int32_t> feature_of = features_by_position(bins);
  const int64_t n_parts = std::max(1, n_threads), n_features = bins.n_features();
  int64_t before = 0;
  std::vector<int64_t> borders{0};  // features of about equally many values
  for (int64_t f = 0; f < n_features; ++f) {
    before += bins.values_of(f);
    if (before * n_parts >= static_cast<int64_t>(borders.size()) * bins.n_values() &&
        static_cast<int64_t>(borders.size()) < n_parts)
      borders.push_back(f + 1);
  }
  borders.resize(n_parts, n_features);
  borders.push_back(n_features);
  parallel_tasks(n_parts, n_threads, [&](int64_t part) {
    const int64_t first = borders[part], last = borders[part + 1];
    if (first >= last) return;
    const int64_t begin = bins.offset(first),
                  end = last < n_features ? bins.offset(last) : bins.n_bins();
    for (int64_t row = 0; row < bins.n_rows(); ++row)
      for (const uint32_t position : bins.row(row))
        if (position >= begin && position < end) {
          const int32_t f = feature_of[position];
          if (position == bins.implied(f)) continue;
          visit(f, row, static_cast<int>(position - bins.offset(f)));
        }
  });
}

}  // namespace

void SparseBins::count_postings(int n_threads) {
  posting_begin_.assign(n_features() + 1, 0);
  std::vector<int32_t> last(n_features(), -1);
  for_each_posting(*this, n_threads, [&](int32_t f, int64_t row, int) {
    posting_begin_[f + 1] += length_of(row - last[f]) + (other_bin(f) < 0);
    last[f] = static_cast<int32_t>(row);
  });
  for (int64_t f = 0; f < n_features(); ++f) posting_begin_[f + 1] += posting_begin_[f];
}

void SparseBins::write_postings(int n_threads) {
  postings_ = std::unique_ptr<uint8_t[]>(new uint8_t[posting_begin_.back()]);
  std::vector<int32_t> last(n_features(), -1);
  std::vector<int64_t> place(posting_begin_.begin(), posting_begin_.end() - 1);
  for_each_posting(*this, n_threads, [&](int32_t f, int64_t row, int bin) {
    uint8_t* to = postings_.get() + place[f];
    int64_t gap = row - last[f];
    for (; gap >= 128; gap >>= 7) *to++ = static_cast<uint8_t>(128 | (gap & 127));
    *to++ = static_cast<uint8_t>(gap);
    if (other_bin(f) < 0) *to++ = static_cast<uint8_t>(bin);
    place[f] = to - postings_.get();
    last[f] = static_cast<int32_t>(row);
  });
}

namespace {

void make_bins(SparseBins* self, const SparseTable& table, Vector<const int32_t> feature_of,
               Vector<const int32_t> column_of, Vector<const double> edge_values,
               Vector<const int64_t> edge_offset, Matrix<uint8_t> dense, Vector<uint8_t> missing,
               int n_threads) {
  const auto n_features = static_cast<int64_t>(column_of.shape(0));
  require(static_cast<int64_t>(feature_of.shape(0)) == table.n_columns() &&
              static_cast<int64_t>(edge_offset.shape(0)) == n_features + 1 &&
              static_cast<int64_t>(missing.shape(0)) == n_features,
          "feature arrays differ in length");
  std::vector<uint8_t> seen(n_features);
  for (size_t c = 0; c < feature_of.shape(0); ++c) {
    require(feature_of(c) >= -1 && feature_of(c) < n_features, "feature out of range");
    if (feature_of(c) >= 0) require(!seen[feature_of(c)]++, "two columns of one feature");
  }
  for (int64_t f = 0; f < n_features; ++f) {
    const int64_t n_edges = edge_offset(f + 1) - edge_offset(f);
    require(edge_offset(f) >= 0 && n_edges >= 0 && n_edges < BINS_PER_FEATURE - 1 &&
                edge_offset(f + 1) <= static_cast<int64_t>(edge_values.shape(0)),
            "edge offsets out of range");
    require(column_of(f) >= -1 && column_of(f) < static_cast<int64_t>(dense.shape(0)),
            "column out of range");
  }
  require(static_cast<int64_t>(dense.shape(1)) >= table.n_rows(), "columns too small");
  const BinTargets targets{feature_of.data(),
                           column_of.data(),
                           edge_values.data(),
                           edge_offset.data(),
                           n_features,
                           dense.data(),
                           static_cast<int64_t>(dense.shape(1)),
                           missing.data()};
  nb::gil_scoped_release release;
  new (self) SparseBins(table, targets, n_threads);
}

}  // namespace

void init_sparse_bins(nb::module_& m) {
  nb::class_<SparseBins>(m, "SparseBins", "The bins of a sparse table's stored values.")
      .def("__init__", &make_bins, "table"_a, "feature_of"_a, "column_of"_a, "edge_values"_a,
           "edge_offset"_a, "dense"_a, "missing"_a, "n_threads"_a)
      .def(
          "prepare",
          [](SparseBins& self, Vector<const int64_t> bin_offset, int n_threads) {
            nb::gil_scoped_release release;
            self.prepare({bin_offset.data(), bin_offset.shape(0)}, n_threads);
          },
          "bin_offset"_a, "n_threads"_a, "Readies the rows for training.")
      .def_prop_ro("n_values", &SparseBins::n_values)
      .def_prop_ro("n_bytes", &SparseBins::n_bytes);
}

}  // namespace bitgrove
