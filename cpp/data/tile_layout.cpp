// Groups the features of few bins, and writes the tiles of a training set.
#include "data/tile_layout.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "bindings/gil.h"
#include "bindings/rooms.h"
#include "common/parallel.h"
#include "layouts.h"
#include "tiles.h"

namespace bitgrove {
namespace {

constexpr int64_t LAY_BLOCK = 256, BLOCKS_PER_THREAD = 16;
constexpr int MOST_BYTES = BINS_PER_FEATURE;
// With fewer rows there are few combinations of anything, and nodes too small to gain by it.
constexpr int64_t LEAST_ROWS_TO_JOIN = 16 * MOST_BYTES;

// Orders of features: equal ones in that of the table. Both are functions of one type, so that they
// share the code that sorts.
bool has_more_bins(const TileMember& a, const TileMember& b) {
  return a.n_bins != b.n_bins ? a.n_bins > b.n_bins : a.feature < b.feature;
}

// Marginals are taken from the most significant feature on. Few bins first keeps the loops long;
// features of one bin come last, where a single number is left.
bool is_more_significant(const TileMember& a, const TileMember& b) {
  const auto rank = [](const TileMember& m) {
    return m.n_bins == 1 ? BINS_PER_FEATURE + 1 : m.n_bins;
  };
  return rank(a) != rank(b) ? rank(a) < rank(b) : a.feature < b.feature;
}

std::vector<TileMember> members_by_bins(const std::vector<int64_t>& bin_offset,
                                        const std::vector<int64_t>& features) {
  std::vector<TileMember> members;
  for (const int64_t f : features) {
    require(f >= 0 && f + 1 < static_cast<int64_t>(bin_offset.size()), "feature out of range");
    const int64_t n_bins = bin_offset[f + 1] - bin_offset[f];
    require(n_bins >= 1 && n_bins <= BINS_PER_FEATURE, "a feature must have 1 to 256 bins");
    members.push_back({static_cast<int>(members.size()), n_bins, bin_offset[f]});
  }
  std::sort(members.begin(), members.end(), has_more_bins);
  return members;
}

// Writes the codes of n rows; false if a bin is none of its feature's.
bool write_codes(const TileCode& code, const ColumnView& rows, int64_t begin, int64_t n,
                 uint8_t* codes) {
  bool ok = true;
  std::fill_n(codes, n, uint8_t{0});
  for (const TileMember& member : code.members) {
    const uint8_t* from = rows.bins + member.feature * rows.stride + begin;
    const auto radix = static_cast<uint8_t>(member.n_bins);
    const auto last_bin = static_cast<uint8_t>(member.n_bins - 1);
    for (int64_t i = 0; i < n; ++i) {
      codes[i] = static_cast<uint8_t>(codes[i] * radix + from[i]);
      ok &= from[i] <= last_bin;
    }
  }
  return ok;
}

// The bytes of n rows with one more code.
void renumber(const std::vector<uint8_t>& number, const TileCode& code, const uint8_t* codes,
              int64_t n, uint8_t* bytes) {
  for (int64_t i = 0; i < n; ++i) bytes[i] = number[bytes[i] * code.n_codes + codes[i]];
}

// Writes the bytes of n <= LAY_BLOCK rows; false if a bin is none of its feature's.
bool write_bytes(const TileColumn& column, const ColumnView& rows, int64_t begin, int64_t n,
                 uint8_t* bytes) {
  bool ok = write_codes(column.codes[0], rows, begin, n, bytes);
  uint8_t codes[LAY_BLOCK];
  for (size_t k = 1; k < column.codes.size(); ++k) {
    ok &= write_codes(column.codes[k], rows, begin, n, codes);
    renumber(column.numbers[k - 1], column.codes[k], codes, n, bytes);
  }
  return ok;
}

// A column that further codes may join, with the bytes of its first rows.
class OpenColumn {
 public:
  OpenColumn(const ColumnView& rows, TileColumn column) : rows_(rows), column_(std::move(column)) {}

  // Takes the code in if the rows hold at most 256 combinations with it.
  bool join(const TileCode& code) {
    std::vector<uint8_t> seen(static_cast<size_t>(column_.n_bytes) * code.n_codes, 0);
    if (!note_pairs(code, seen)) return false;
    number_pairs(code, seen);
    return true;
  }

  const TileColumn& column() const { return column_; }

 private:
  // Marks the combinations that occur; false once there are too many.
  bool note_pairs(const TileCode& code, std::vector<uint8_t>& seen) {
    int n_seen = 0;
    uint8_t codes[LAY_BLOCK];
    for (int64_t begin = 0; begin < rows_.n_rows; begin += LAY_BLOCK) {
      const int64_t n = std::min(LAY_BLOCK, rows_.n_rows - begin);
      if (begin == static_cast<int64_t>(bytes_.size())) {
        bytes_.resize(begin + n);
        if (!write_bytes(column_, rows_, begin, n, bytes_.data() + begin)) return false;
      }
      if (!write_codes(code, rows_, begin, n, codes)) return false;
      for (int64_t i = 0; i < n; ++i) {
        uint8_t& mark = seen[bytes_[begin + i] * code.n_codes + codes[i]];
        n_seen += !mark;
        mark = 1;
      }
      if (n_seen > MOST_BYTES) return false;
    }
    return true;
  }

  void number_pairs(const TileCode& code, const std::vector<uint8_t>& seen) {
    std::vector<uint8_t> number(seen.size(), 0);
    TileColumn joined{0, column_.codes, column_.numbers};
    joined.codes.push_back(code);
    for (TileCode& part : joined.codes) part.of_byte.clear();
    for (size_t pair = 0; pair < seen.size(); ++pair) {
      if (!seen[pair]) continue;
      const size_t byte = pair / code.n_codes;
      for (size_t k = 0; k < column_.codes.size(); ++k) {
        const std::vector<uint8_t>& before = column_.codes[k].of_byte;
        joined.codes[k].of_byte.push_back(before.empty() ? static_cast<uint8_t>(byte)
                                                         : before[byte]);
      }
      joined.codes.back().of_byte.push_back(static_cast<uint8_t>(pair % code.n_codes));
      number[pair] = static_cast<uint8_t>(joined.n_bytes++);
    }
    uint8_t codes[LAY_BLOCK];
    for (int64_t begin = 0; begin < rows_.n_rows; begin += LAY_BLOCK) {
      const int64_t n = std::min(LAY_BLOCK, rows_.n_rows - begin);
      write_codes(code, rows_, begin, n, codes);
      renumber(number, code, codes, n, bytes_.data() + begin);
    }
    joined.numbers.push_back(std::move(number));
    column_ = std::move(joined);
  }

  ColumnView rows_;
  TileColumn column_;
  std::vector<uint8_t> bytes_;
};

ColumnView view(const TileLayout& layout, const Matrix<const uint8_t>& columns, int64_t n_rows) {
  require(static_cast<int>(columns.shape(0)) == layout.n_features() &&
              static_cast<int64_t>(columns.shape(1)) >= n_rows,
          "columns too small");
  return {columns.data(), static_cast<int64_t>(columns.shape(1)), n_rows};
}

void join_columns(TileLayout& layout, const Matrix<const uint8_t>& columns, int64_t n_rows) {
  const ColumnView rows = view(layout, columns, n_rows);
  WithoutGil released;
  layout.join_columns(rows);
}

void lay_tiles(const TileLayout& layout, const Matrix<const uint8_t>& columns, int64_t n_rows,
               const Vector<uint8_t>& tiles, int n_threads) {
  const ColumnView rows = view(layout, columns, n_rows);
  require(static_cast<int64_t>(tiles.shape(0)) >= layout.n_bytes(n_rows), "tiles too small");
  uint8_t* data = tiles.data();
  bool ok = true;
  {
    WithoutGil released;
    ok = layout.lay(rows, data, n_threads);
  }
  require(ok, "a bin is outside of its feature's");
}

}  // namespace

// Best fit, the largest first: a feature goes where the least room is left that it still fits.
TileLayout::TileLayout(const std::vector<int64_t>& bin_offset, const std::vector<int64_t>& features)
    : n_features_(static_cast<int>(features.size())), n_bins_(bin_offset.back()) {
  std::vector<std::vector<int>> with_room(BINS_PER_FEATURE + 1);
  std::vector<TileCode> codes;
  for (const TileMember& member : members_by_bins(bin_offset, features)) {
    int64_t room = member.n_bins;
    while (room <= BINS_PER_FEATURE && with_room[room].empty()) ++room;
    int code = static_cast<int>(codes.size());
    if (room <= BINS_PER_FEATURE) {
      code = with_room[room].back();
      with_room[room].pop_back();
    } else {
      codes.emplace_back();
    }
    codes[code].members.push_back(member);
    codes[code].n_codes *= static_cast<int>(member.n_bins);
    with_room[BINS_PER_FEATURE / codes[code].n_codes].push_back(code);
  }
  for (TileCode& code : codes) {
    std::sort(code.members.begin(), code.members.end(), is_more_significant);
    columns_.push_back({code.n_codes, {code}, {}});
  }
}

// Neighbours in the order of the columns, where features of as many bins are side by side.
void TileLayout::join_columns(const ColumnView& rows) {
  if (rows.n_rows < LEAST_ROWS_TO_JOIN || columns_.empty()) return;
  std::vector<TileColumn> joined;
  OpenColumn open(rows, columns_[0]);
  for (int c = 1; c < n_columns(); ++c) {
    if (open.join(columns_[c].codes[0])) continue;
    joined.push_back(open.column());
    open = OpenColumn(rows, columns_[c]);
  }
  joined.push_back(open.column());
  columns_ = std::move(joined);
}

bool TileLayout::lay(const ColumnView& rows, uint8_t* tiles, int n_threads) const {
  std::atomic<bool> ok{true};
  parallel_tasks(
      blocks_of(rows.n_rows, LAY_BLOCK), n_threads,
      [&](int64_t task) {
        const int64_t begin = task * LAY_BLOCK, n = std::min(LAY_BLOCK, rows.n_rows - begin);
        uint8_t bytes[LAY_BLOCK];
        for (int c = 0; c < n_columns(); ++c) {
          if (!write_bytes(columns_[c], rows, begin, n, bytes)) ok = false;
          const int stride = TileView::stride_of(c / TILE_FEATURES, n_columns());
          uint8_t* out = tiles + TileView::offset_of(c / TILE_FEATURES, rows.n_rows) +
                         begin * stride + c % TILE_FEATURES;
          for (int64_t i = 0; i < n; ++i) out[i * stride] = bytes[i];
        }
      },
      BLOCKS_PER_THREAD);
  return ok;
}

int64_t TileLayout::n_bytes(int64_t n_rows) const {
  return columns_.empty() ? 0 : TileView::n_bytes(n_rows, n_columns());
}

void init_tile_layout(nb::module_& m) {
  nb::class_<TileLayout>(m, "TileLayout")
      .def(
          "__init__",
          [](TileLayout* self, const Vector<const int64_t>& bin_offset,
             const Optional<const int64_t>& features) {
            require(bin_offset.shape(0) > 1, "a layout needs features");
            std::vector<int64_t> in_tiles(bin_offset.shape(0) - 1);
            std::iota(in_tiles.begin(), in_tiles.end(), 0);
            if (features) in_tiles.assign(features->data(), features->data() + features->shape(0));
            new (self)
                TileLayout({bin_offset.data(), bin_offset.data() + bin_offset.shape(0)}, in_tiles);
          },
          "bin_offset"_a, "features"_a = nb::none(),
          "features: those in the tiles, one for each column of bins; none given: all.")
      .def("join_columns", &join_columns, "columns"_a, "n_rows"_a,
           "Joins columns of which these rows hold few combinations.")
      .def("n_bytes", &TileLayout::n_bytes, "n_rows"_a)
      .def_prop_ro("columns", [](const TileLayout& layout) {
        nb::list columns;  // the features of each column, code by code, the most significant first
        for (const TileColumn& column : layout.columns()) {
          nb::list codes;
          for (const TileCode& code : column.codes) {
            nb::list features;
            for (const TileMember& member : code.members) features.append(member.feature);
            codes.append(features);
          }
          columns.append(codes);
        }
        return columns;
      });
  m.def("lay_tiles", &lay_tiles, "layout"_a, "columns"_a, "n_rows"_a, "tiles"_a, "n_threads"_a,
        "Writes the row-major tiles of binned columns.");
}

}  // namespace bitgrove
