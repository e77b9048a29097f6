// Makes the lists of a sparse table: values to positions.
#include "sparse/sparse_bins.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "bindings/gil.h"
#include "common/parallel.h"
#include "layouts.h"

namespace bitgrove {
namespace {

constexpr int64_t CHUNKS_OF_BLOCK = 16;  // whose rows are taken from columns at a time

}  // namespace

// Bins the values of a table into the rows of lists, and into dense columns.
class SparseBins::Layer {
 public:
  Layer(const SparseTable& table, const BinTargets& targets, SparseBins& bins)
      : table_(table), targets_(targets), bins_(bins) {
    int32_t last = -1;
    for (int64_t column = 0; column < table.n_columns(); ++column) {
      const int32_t f = targets.feature_of[column];
      if (f < 0) continue;
      in_order_ &= f > last;
      last = f;
    }
  }

  void lay(int n_threads) {
    table_.by_rows() ? lay_rows(n_threads) : lay_columns(n_threads);
    require(!was_changed_, "a missing value came into a sparse table while it was binned");
    bins_.n_values_ = n_values_;
  }

  // The number of edges below the value; the missing bin of NaN.
  int bin(int64_t feature, double x) {
    const double* edges = targets_.edge_values + targets_.edge_offset[feature];
    const int64_t n = targets_.edge_offset[feature + 1] - targets_.edge_offset[feature];
    if (x == x) return static_cast<int>(std::lower_bound(edges, edges + n, x) - edges);
    if (!targets_.has_missing[feature]) was_changed_ = true;
    return static_cast<int>(n + targets_.has_missing[feature]);
  }

 private:
  void lay_rows(int n_threads) {
    std::vector<MadeLists> made(std::max(1, n_threads));
    parallel_tasks(bins_.rows_.n_chunks(), n_threads, [&](int64_t chunk, int member) {
      MadeLists& lists = made[member];
      lists.clear();
      const int64_t end = bins_.rows_.end_row(chunk);
      for (int64_t row = bins_.rows_.first_row(chunk); row < end; ++row) {
        const auto first = static_cast<int64_t>(lists.numbers.size());
        for (int64_t k = table_.begin(row); k < table_.end(row); ++k)
          if (const int32_t f = targets_.feature_of[table_.index(k)]; f >= 0)
            place(f, row, k, [&](uint32_t position) { lists.numbers.push_back(position); });
        if (!in_order_) std::sort(lists.numbers.begin() + first, lists.numbers.end());
        lists.end_row();
      }
      write(chunk, lists);
    });
  }

  // Each thread goes through all columns with some rows in mind, a block of them at a time.
  void lay_columns(int n_threads) {
    const int64_t n_blocks = blocks_of(bins_.rows_.n_chunks(), CHUNKS_OF_BLOCK);
    const int64_t n_parts = std::clamp<int64_t>(n_threads, 1, std::max<int64_t>(n_blocks, 1));
    parallel_tasks(n_parts, n_threads, [&](int64_t part) {
      const int64_t first = n_blocks * part / n_parts, last = n_blocks * (part + 1) / n_parts;
      std::vector<int64_t> next(table_.n_columns());  // of each column, its value to go on from
      for (int64_t column = 0; column < table_.n_columns(); ++column)
        next[column] = table_.first_from(column, bins_.rows_.first_row(first * CHUNKS_OF_BLOCK));
      for (int64_t block = first; block < last; ++block)
        lay_block(block * CHUNKS_OF_BLOCK,
                  std::min((block + 1) * CHUNKS_OF_BLOCK, bins_.rows_.n_chunks()), next);
    });
  }

  // The rows of the chunks [begin, end); `next` moves on behind them.
  void lay_block(int64_t begin, int64_t end, std::vector<int64_t>& next) {
    const int64_t first = bins_.rows_.first_row(begin), last = bins_.rows_.end_row(end - 1);
    const auto for_values = [&](auto&& work) {
      for (int64_t column = 0; column < table_.n_columns(); ++column)
        if (const int32_t f = targets_.feature_of[column]; f >= 0) work(column, f);
    };
    std::vector<uint32_t> place_of(last - first + 1);
    for_values([&](int64_t column, int32_t f) {
      if (targets_.column_of[f] >= 0) return;
      for (int64_t k = next[column]; k < table_.end(column) && table_.index(k) < last; ++k)
        ++place_of[table_.index(k) - first + 1];
    });
    for (size_t i = 1; i < place_of.size(); ++i) place_of[i] += place_of[i - 1];
    const std::vector<uint32_t> begins = place_of;
    std::vector<uint32_t> numbers(place_of.back());
    for_values([&](int64_t column, int32_t f) {
      int64_t& k = next[column];
      for (; k < table_.end(column) && table_.index(k) < last; ++k) {
        const int64_t row = table_.index(k);
        place(f, row, k, [&](uint32_t position) { numbers[place_of[row - first]++] = position; });
      }
    });
    MadeLists lists;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      lists.clear();
      for (int64_t row = bins_.rows_.first_row(chunk); row < bins_.rows_.end_row(chunk); ++row) {
        const auto from = numbers.begin() + begins[row - first],
                   to = numbers.begin() + begins[row - first + 1];
        if (!in_order_) std::sort(from, to);
        lists.numbers.insert(lists.numbers.end(), from, to);
        lists.end_row();
      }
      write(chunk, lists);
    }
  }

  // Into a dense column, or by to_list(position).
  template <class ToList>
  void place(int32_t f, int64_t row, int64_t k, ToList&& to_list) {
    const int found = bin(f, table_.value(k));
    const int32_t column = targets_.column_of[f];
    if (column < 0)
      to_list(static_cast<uint32_t>(bins_.offset_[f] + found));
    else
      targets_.dense[column * targets_.dense_stride + row] = static_cast<uint8_t>(found);
  }

  void write(int64_t chunk, const MadeLists& lists) {
    bins_.rows_.write(chunk, lists);
    n_values_ += static_cast<int64_t>(lists.numbers.size());
  }

  const SparseTable& table_;
  const BinTargets& targets_;
  SparseBins& bins_;
  bool in_order_ = true;  // columns of the table are in the order of their features
  std::atomic<int64_t> n_values_{0};
  std::atomic<bool> was_changed_{false};
};

SparseBins::SparseBins(const SparseTable& table, const BinTargets& targets, int n_threads)
    : offset_(targets.n_features + 1), implied_(targets.n_features, -1), rows_(table.n_rows()) {
  table.check(n_threads);
  for (int64_t f = 0; f < targets.n_features; ++f)
    offset_[f + 1] = offset_[f] + targets.edge_offset[f + 1] - targets.edge_offset[f] + 1 +
                     (targets.has_missing[f] ? 1 : 0);
  require(offset_.back() <= UINT32_MAX, "too many bins");
  Layer layer(table, targets, *this);
  for (int64_t column = 0; column < table.n_columns(); ++column) {
    const int32_t f = targets.feature_of[column];
    if (f < 0) continue;
    const int zero = layer.bin(f, 0.0);
    if (targets.column_of[f] >= 0) {
      std::fill_n(targets.dense + targets.column_of[f] * targets.dense_stride, table.n_rows(),
                  static_cast<uint8_t>(zero));
    } else {
      implied_[f] = offset_[f] + zero;
      features_.push_back(f);
    }
  }
  std::sort(features_.begin(), features_.end());
  layer.lay(n_threads);
}

void SparseBins::prepare(std::span<const int64_t> bin_offset, int n_threads) {
  require(bin_offset.size() == offset_.size(), "bin offsets differ in length");
  if (!std::equal(offset_.begin(), offset_.end(), bin_offset.begin()))
    renumber(bin_offset, n_threads);
  index_features();
  make_postings(n_threads);
}

// Blocks of about as many positions as a feature has bins.
void SparseBins::index_features() {
  if (n_features() == 0) return;
  shift_ = static_cast<int>(std::bit_width(static_cast<uint64_t>(n_bins() / n_features()))) - 1;
  first_feature_.assign((n_bins() >> shift_) + 1, 0);
  int32_t f = 0;
  for (int64_t block = 0; block << shift_ < n_bins(); ++block) {
    while (offset_[f + 1] <= block << shift_) ++f;
    first_feature_[block] = f;
  }
}

int64_t SparseBins::position_border(int64_t p, int64_t n) const {
  if (p == 0 || p == n) return p == 0 ? 0 : n_bins();
  const int64_t before = posting_begin_.back() * p / n;
  const auto at = std::lower_bound(posting_begin_.begin(), posting_begin_.end() - 1, before);
  return offset_[at - posting_begin_.begin()];
}

// Other ranks have missing values where this one has none.
void SparseBins::renumber(std::span<const int64_t> bin_offset, int n_threads) {
  index_features();
  for (int64_t f = 0; f < n_features(); ++f) {
    require(bin_offset[f + 1] - bin_offset[f] >= offset_[f + 1] - offset_[f],
            "a feature has fewer bins than values need");
    if (implied_[f] >= 0) implied_[f] += bin_offset[f] - offset_[f];
  }
  require(bin_offset.back() <= UINT32_MAX, "too many bins");
  parallel_tasks(rows_.n_chunks(), n_threads, [&](int64_t chunk) {
    MadeLists lists;
    for (int64_t row = rows_.first_row(chunk); row < rows_.end_row(chunk); ++row) {
      rows_.for_each(row, [&](uint32_t position) {
        const int64_t f = feature_at(position);
        lists.numbers.push_back(static_cast<uint32_t>(position + bin_offset[f] - offset_[f]));
      });
      lists.end_row();
    }
    rows_.write(chunk, lists);
  });
  offset_.assign(bin_offset.begin(), bin_offset.end());
}

int64_t SparseBins::n_bytes() const {
  return rows_.n_bytes() + (posting_begin_.empty() ? 0 : posting_begin_.back());
}

namespace {

void make_bins(SparseBins* self, const SparseTable& table, const Vector<const int32_t>& feature_of,
               const Vector<const int32_t>& column_of, const Vector<const double>& edge_values,
               const Vector<const int64_t>& edge_offset, const Matrix<uint8_t>& dense,
               const Vector<const uint8_t>& has_missing, int n_threads) {
  const auto n_features = static_cast<int64_t>(column_of.shape(0));
  require(static_cast<int64_t>(feature_of.shape(0)) == table.n_columns() &&
              static_cast<int64_t>(edge_offset.shape(0)) == n_features + 1 &&
              static_cast<int64_t>(has_missing.shape(0)) == n_features,
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
  const BinTargets targets{feature_of.data(),  column_of.data(),
                           edge_values.data(), edge_offset.data(),
                           has_missing.data(), n_features,
                           dense.data(),       static_cast<int64_t>(dense.shape(1))};
  WithoutGil released;
  new (self) SparseBins(table, targets, n_threads);
}

}  // namespace

void init_sparse_bins(nb::module_& m) {
  nb::class_<SparseBins>(m, "SparseBins", "The bins of a sparse table's stored values.")
      .def("__init__", &make_bins, "table"_a, "feature_of"_a, "column_of"_a, "edge_values"_a,
           "edge_offset"_a, "dense"_a, "has_missing"_a, "n_threads"_a)
      .def(
          "prepare",
          [](SparseBins& self, const Vector<const int64_t>& bin_offset, int n_threads) {
            WithoutGil released;
            self.prepare({bin_offset.data(), bin_offset.shape(0)}, n_threads);
          },
          "bin_offset"_a, "n_threads"_a, "Readies the rows for training.")
      .def_prop_ro("n_values", &SparseBins::n_values)
      .def_prop_ro("by_postings", &SparseBins::by_postings)
      .def_prop_ro("n_bytes", &SparseBins::n_bytes);
}

}  // namespace bitgrove
