// Groups the features of few bins, and writes the tiles of a training set.
#include "tile_layout.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "layouts.h"
#include "parallel.h"
#include "rooms.h"
#include "tiles.h"

namespace bitgrove {
namespace {

constexpr int64_t LAY_BLOCK = 256, BLOCKS_PER_THREAD = 16;

std::vector<TileMember> members_by_bins(const std::vector<int64_t>& bin_offset) {
  std::vector<TileMember> members;
  for (size_t f = 0; f + 1 < bin_offset.size(); ++f) {
    const int64_t n_bins = bin_offset[f + 1] - bin_offset[f];
    require(n_bins >= 1 && n_bins <= BINS_PER_FEATURE, "a feature must have 1 to 256 bins");
    members.push_back({static_cast<int>(f), n_bins, bin_offset[f]});
  }
  std::stable_sort(members.begin(), members.end(),
                   [](const TileMember& a, const TileMember& b) { return a.n_bins > b.n_bins; });
  return members;
}

// Marginals are taken from the most significant feature on. Few bins first keeps the loops long;
// features of one bin come last, where a single number is left.
bool is_more_significant(const TileMember& a, const TileMember& b) {
  const auto rank = [](const TileMember& m) { return m.n_bins == 1 ? BINS_PER_FEATURE + 1 : m.n_bins; };
  return rank(a) < rank(b);
}

// Writes the codes of n rows; false if a bin is none of its feature's.
bool write_codes(const TileColumn& column, const uint8_t* bins, int64_t column_stride, int64_t n, uint8_t* codes) {
  bool ok = true;
  std::fill_n(codes, n, uint8_t{0});
  for (const TileMember& member : column.members) {
    const uint8_t* from = bins + member.feature * column_stride;
    const auto radix = static_cast<uint8_t>(member.n_bins);
    const auto last_bin = static_cast<uint8_t>(member.n_bins - 1);
    for (int64_t i = 0; i < n; ++i) {
      codes[i] = static_cast<uint8_t>(codes[i] * radix + from[i]);
      ok &= from[i] <= last_bin;
    }
  }
  return ok;
}

// Fills the tiles of a training set from its columns, (n_features, at least n_rows).
void lay_tiles(const TileLayout& layout, Matrix<const uint8_t> columns, int64_t n_rows, Vector<uint8_t> tiles,
               int n_threads) {
  const int n_columns = layout.n_columns();
  require(static_cast<int>(columns.shape(0)) == layout.n_features() && static_cast<int64_t>(columns.shape(1)) >= n_rows,
          "columns too small");
  require(static_cast<int64_t>(tiles.shape(0)) >= layout.n_bytes(n_rows), "tiles too small");
  const int64_t column_stride = columns.shape(1);
  const uint8_t* bins = columns.data();
  uint8_t* data = tiles.data();
  std::atomic<bool> ok{true};
  nb::gil_scoped_release release;
  parallel_tasks(blocks_of(n_rows, LAY_BLOCK), n_threads, [&](int64_t task) {
    const int64_t begin = task * LAY_BLOCK, n = std::min(LAY_BLOCK, n_rows - begin);
    uint8_t codes[LAY_BLOCK];
    for (int c = 0; c < n_columns; ++c) {
      if (!write_codes(layout.columns()[c], bins + begin, column_stride, n, codes)) ok = false;
      const int stride = TileView::stride_of(c / TILE_FEATURES, n_columns);
      uint8_t* out = data + TileView::offset_of(c / TILE_FEATURES, n_rows) + begin * stride + c % TILE_FEATURES;
      for (int64_t i = 0; i < n; ++i) out[i * stride] = codes[i];
    }
  }, BLOCKS_PER_THREAD);
  require(ok, "a bin is outside of its feature's");
}

}  // namespace

// Best fit, the largest first: a feature goes where the least room is left that it still fits.
TileLayout::TileLayout(const std::vector<int64_t>& bin_offset)
    : n_features_(static_cast<int>(bin_offset.size()) - 1), n_bins_(bin_offset.back()) {
  std::vector<std::vector<int>> with_room(BINS_PER_FEATURE + 1);
  for (const TileMember& member : members_by_bins(bin_offset)) {
    int64_t room = member.n_bins;
    while (room <= BINS_PER_FEATURE && with_room[room].empty()) ++room;
    int column = n_columns();
    if (room <= BINS_PER_FEATURE) {
      column = with_room[room].back();
      with_room[room].pop_back();
    } else {
      columns_.emplace_back();
    }
    columns_[column].members.push_back(member);
    columns_[column].n_codes *= static_cast<int>(member.n_bins);
    with_room[BINS_PER_FEATURE / columns_[column].n_codes].push_back(column);
  }
  for (TileColumn& column : columns_)
    std::stable_sort(column.members.begin(), column.members.end(), is_more_significant);
}

int64_t TileLayout::n_bytes(int64_t n_rows) const { return TileView::n_bytes(n_rows, n_columns()); }

void init_tile_layout(nb::module_& m) {
  nb::class_<TileLayout>(m, "TileLayout")
      .def("__init__", [](TileLayout* self, Vector<const int64_t> bin_offset) {
        require(bin_offset.shape(0) > 1, "a layout needs features");
        new (self) TileLayout({bin_offset.data(), bin_offset.data() + bin_offset.shape(0)});
      })
      .def("n_bytes", &TileLayout::n_bytes)
      .def_prop_ro("columns", [](const TileLayout& layout) {
        nb::list columns;  // the features of each column, the most significant first
        for (const TileColumn& column : layout.columns()) {
          nb::list features;
          for (const TileMember& member : column.members) features.append(member.feature);
          columns.append(features);
        }
        return columns;
      });
  m.def("lay_tiles", &lay_tiles);
}

}  // namespace bitgrove
