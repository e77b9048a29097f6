// Values to bins: one column of bytes per feature.
#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "bindings/gil.h"
#include "bindings/rooms.h"
#include "common/parallel.h"
#include "data/columns.h"
#include "data/edges.h"
#include "layouts.h"
#include "tiles.h"

namespace bitgrove {
namespace {

// Rows per block: a block of a wide table stays in L1 while its columns are read one by one.
constexpr int64_t BIN_BLOCK = 256;
constexpr int64_t BLOCKS_PER_THREAD = 16;

void read_values(const Column& column, int64_t begin, int64_t n, double* out) {
  if (column.type == ColumnType::FLOAT64) {
    const double* p = column.at<double>(begin);
    for (int64_t i = 0; i < n; ++i) out[i] = p[i * column.stride];
  } else {
    const float* p = column.at<float>(begin);
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<double>(p[i * column.stride]);
  }
}

// Bins that are bins already; they may lie where they belong. False if there is no such bin.
bool take_bins(const Column& column, int64_t begin, int64_t n, int missing_bin, uint8_t* out,
               bool& any_missing) {
  const uint8_t* from = column.at<uint8_t>(begin);
  uint8_t last = 0;
  for (int64_t i = 0; i < n; ++i) last = std::max(last, from[i * column.stride]);
  if (from != out)
    for (int64_t i = 0; i < n; ++i) out[i] = from[i * column.stride];
  any_missing = last == missing_bin;
  return last <= missing_bin;
}

std::vector<Edges> padded_edges(const Vector<const double>& values,
                                const Vector<const int64_t>& offset) {
  std::vector<Edges> result;
  result.reserve(offset.shape(0) - 1);
  for (size_t f = 0; f + 1 < offset.shape(0); ++f) {
    const int64_t begin = offset(f), n = offset(f + 1) - begin;
    require(begin >= 0 && n >= 0 && n <= MAX_EDGES &&
                offset(f + 1) <= static_cast<int64_t>(values.shape(0)),
            "edge offsets out of range");
    result.emplace_back(values.data() + begin, n);
  }
  return result;
}

// Fills the rows [first_row, first_row + n_rows) of the columns; any_missing[f] is set where
// feature f has a NaN, or the missing bin.
void bin_columns(const nb::list& columns, const Vector<const double>& edge_values,
                 const Vector<const int64_t>& edge_offset, const Matrix<uint8_t>& bin_columns,
                 const Vector<uint8_t>& any_missing, int64_t n_rows, int n_threads, int simd,
                 int64_t first_row) {
  const std::vector<Column> sources = columns_of(columns, n_rows);
  const std::vector<Edges> edges = padded_edges(edge_values, edge_offset);
  const int n_features = static_cast<int>(sources.size());
  require(edges.size() == sources.size() && any_missing.shape(0) == sources.size(),
          "feature counts differ");
  require(first_row >= 0 && bin_columns.shape(0) == sources.size() &&
              static_cast<int64_t>(bin_columns.shape(1)) - n_rows >= first_row,
          "columns too small");
  uint8_t* column_data = bin_columns.data();
  uint8_t* missing = any_missing.data();
  const int64_t column_stride = bin_columns.shape(1);
  std::atomic<bool> ok{true};
  const auto bin_block = [&](int64_t task) {
    const int64_t begin = task * BIN_BLOCK, n = std::min(BIN_BLOCK, n_rows - begin);
    double values[BIN_BLOCK];
    for (int f = 0; f < n_features; ++f) {
      uint8_t* bins = column_data + f * column_stride + first_row + begin;
      bool has_missing = false;
      if (sources[f].type == ColumnType::BINS) {
        if (!take_bins(sources[f], begin, n, edges[f].missing_bin(), bins, has_missing)) ok = false;
      } else {
        read_values(sources[f], begin, n, values);
        has_missing = find_bins(values, n, edges[f], bins, static_cast<Simd>(simd));
      }
      if (has_missing) AtomicRef(missing[f]).store(1);
    }
  };
  {
    WithoutGil released;
    parallel_tasks(blocks_of(n_rows, BIN_BLOCK), n_threads, bin_block, BLOCKS_PER_THREAD);
  }
  require(ok, "a bin is outside of its feature's");
}

}  // namespace

void init_binning(nb::module_& m) {
  m.def(
      "tile_bytes",
      [](int64_t n_rows, int n_features) { return TileView::n_bytes(n_rows, n_features); },
      "n_rows"_a, "n_features"_a, "Bytes of the row-major tiles of a GPU.");
  m.def("bin_columns", &bin_columns, "columns"_a, "edge_values"_a, "edge_offset"_a, "bins"_a,
        "any_missing"_a, "n_rows"_a, "n_threads"_a, "simd"_a, "first_row"_a = 0,
        "Writes the bins of all columns (values, or bins already), and whether each has a missing "
        "value.");
}

}  // namespace bitgrove
