// Rows in a canonical form, for fingerprints: the same bytes for the same values, whatever type and
// layout they came in, stored sparsely or not. docs/verification.md says what the bytes are.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings/gil.h"
#include "bindings/rooms.h"
#include "common/key_sort.h"
#include "data/columns.h"
#include "sparse/sparse_table.h"

namespace bitgrove {
namespace {

static_assert(std::endian::native == std::endian::little, "the form is little-endian");

// Rows read at a time: their part of a row-major table stays in L1 while columns are picked.
constexpr int64_t PICKED_ROWS = 256;
constexpr uint8_t AS_BYTES = 1, AS_FLOATS = 4, AS_DOUBLES = 8;  // also the bytes of a value
constexpr uint8_t FEW = 16;          // added where only values that are not zero are written
constexpr int64_t ZEROS_OF_FEW = 4;  // that is so if fewer than one of so many is not zero
constexpr int MAX_BYTE = 254;        // 255 is a missing value
constexpr uint8_t MISSING_BYTE = 255;
constexpr int64_t CHECKED_TOGETHER = 64;  // values between two looks whether one did not fit
constexpr int64_t MOST_ROWS = 1 << 16;    // of a block: places in it are uint16
// What a column of n rows takes at most.
constexpr int64_t room_of(int64_t n) { return 16 + 8 * n; }

// -0 becomes +0, every NaN the same one.
template <class Real>
Real canonical(Real v) {
  return v != v ? std::numeric_limits<Real>::quiet_NaN() : v + Real{0};
}

template <class Real>
void pick(const Column& column, int64_t begin, int64_t n, Real* out) {
  const Real* p = column.at<Real>(begin);
  for (int64_t i = 0; i < n; ++i) out[i] = canonical(p[i * column.stride]);
}

template <class Real>
bool fits_byte(Real v) {
  // An int32 cannot hold all of them.
  const Real near = ((v >= Real{0}) & (v <= Real{MAX_BYTE})) ? v : Real{0.5};
  return (v != v) | (near == static_cast<Real>(static_cast<int32_t>(near)));
}

bool fits_float(double v) { return (v != v) | (static_cast<float>(v) == v); }

template <class Real, class Fits>
bool all_fit(const Real* values, int64_t n, Fits fits) {
  for (int64_t begin = 0; begin < n; begin += CHECKED_TOGETHER) {
    const int64_t end = begin + CHECKED_TOGETHER < n ? begin + CHECKED_TOGETHER : n;
    int n_not = 0;
    for (int64_t i = begin; i < end; ++i) n_not += !fits(values[i]);
    if (n_not > 0) return false;
  }
  return true;
}

template <class T>
uint8_t* append(const T* items, int64_t n, uint8_t* out) {
  std::memcpy(out, items, n * sizeof(T));
  return out + n * sizeof(T);
}

template <class Real>
uint8_t width_of(const Real* values, int64_t n) {
  if (all_fit(values, n, fits_byte<Real>)) return AS_BYTES;
  if constexpr (std::is_same_v<Real, float>) return AS_FLOATS;
  return all_fit(values, n, fits_float) ? AS_FLOATS : AS_DOUBLES;
}

template <class Real>
uint8_t* write_values(const Real* values, int64_t n, uint8_t width, uint8_t* out) {
  if (width == sizeof(Real)) return append(values, n, out);
  if (width == AS_BYTES) {
    for (int64_t i = 0; i < n; ++i)
      out[i] = values[i] != values[i] ? MISSING_BYTE : static_cast<uint8_t>(values[i]);
    return out + n;
  }
  for (int64_t i = 0; i < n; ++i) {
    const float narrow = canonical(static_cast<float>(values[i]));
    std::memcpy(out + i * sizeof narrow, &narrow, sizeof narrow);
  }
  return out + n * sizeof(float);
}

uint8_t* write_head(uint32_t column, uint8_t form, uint8_t* out) {
  out = append(&column, 1, out);
  *out++ = form;
  return out;
}

template <class Real>
uint8_t* write_few(uint32_t column, std::span<const uint16_t> places, const Real* values,
                   uint8_t* out) {
  const auto n = static_cast<uint32_t>(places.size());
  const uint8_t width = width_of(values, n);
  out = write_head(column, FEW + width, out);
  out = append(&n, 1, out);
  out = append(places.data(), n, out);
  return write_values(values, n, width, out);
}

bool are_few(int64_t n_filled, int64_t n_rows) { return ZEROS_OF_FEW * n_filled < n_rows; }

// A column of a block, of which nothing is written if all of it is zero; returns the end.
template <class Real>
uint8_t* write_column(uint32_t column, const Real* values, int64_t n, uint8_t* out) {
  int32_t n_filled = 0;
  for (int64_t i = 0; i < n; ++i) n_filled += values[i] != Real{0};
  if (n_filled == 0) return out;
  if (!are_few(n_filled, n)) {
    const uint8_t width = width_of(values, n);
    return write_values(values, n, width, write_head(column, width, out));
  }
  thread_local std::vector<uint16_t> places;
  thread_local std::vector<Real> filled;
  places.clear();
  filled.clear();
  for (int64_t i = 0; i < n; ++i)
    if (values[i] != Real{0}) {
      places.push_back(static_cast<uint16_t>(i));
      filled.push_back(values[i]);
    }
  return write_few(column, places, filled.data(), out);
}

// The columns of a table, to be written some rows at a time, by several threads at once.
class CanonicalRows {
 public:
  CanonicalRows(const nb::list& columns, int64_t n_rows)
      : kept_(columns), columns_(columns_of(columns, n_rows)), n_rows_(n_rows) {
    for (const Column& column : columns_)
      require(column.type != ColumnType::BINS, "a column holds bins instead of values");
  }

  // Writes the columns [begin, end) of the rows [first, first + n); returns the number of bytes.
  int64_t write(int64_t first, int64_t n, int64_t begin, int64_t end,
                const Vector<uint8_t>& out) const {
    require(first >= 0 && n >= 0 && first + n <= n_rows_ && n <= MOST_ROWS, "rows out of range");
    require(begin >= 0 && begin <= end && end <= static_cast<int64_t>(columns_.size()),
            "columns out of range");
    require(static_cast<int64_t>(out.shape(0)) >= (end - begin) * room_of(n), "out too small");
    uint8_t* const start = out.data();
    WithoutGil released;
    // Kept: new memory costs more than writing to it. Of doubles, so that either type has room.
    thread_local std::vector<double> room;
    if (static_cast<int64_t>(room.size()) < (end - begin) * n) room.resize((end - begin) * n);
    const auto with_values = [&](int64_t f, auto&& work) {
      double* const values = room.data() + (f - begin) * n;
      if (columns_[f].type == ColumnType::FLOAT64)
        work(values);
      else
        work(reinterpret_cast<float*>(values));
    };
    for (int64_t row = 0; row < n; row += PICKED_ROWS)
      for (int64_t f = begin; f < end; ++f)
        with_values(f, [&](auto* values) {
          pick(columns_[f], first + row, std::min(PICKED_ROWS, n - row), values + row);
        });
    uint8_t* at = start;
    for (int64_t f = begin; f < end; ++f)
      with_values(f, [&](const auto* values) {
        at = write_column(static_cast<uint32_t>(f), values, n, at);
      });
    return at - start;
  }

 private:
  nb::list kept_;  // the arrays stay alive
  std::vector<Column> columns_;
  int64_t n_rows_;
};

struct StoredValue {
  uint32_t column;
  uint16_t place;
  double value;
};

// What a block of a sparse table needs, kept by each thread from one block to the next.
struct BlockRoom {
  std::vector<StoredValue> stored, other;
  std::vector<uint16_t> places;
  std::vector<double> values, whole;
  std::unique_ptr<uint8_t[]> out;
  size_t n_out = 0;
};

// The values of the rows [first, first + n) that are not zero, by column and row.
void read_block(const SparseTable& table, int64_t first, int64_t n, BlockRoom& room) {
  room.stored.clear();
  room.stored.reserve(table.begin(first + n) - table.begin(first));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = table.begin(first + i), end = table.end(first + i); k < end; ++k)
      if (table.value(k) != 0.0)
        room.stored.push_back({static_cast<uint32_t>(table.index(k)), static_cast<uint16_t>(i),
                               canonical(table.value(k))});
  const auto n_stored = static_cast<int64_t>(room.stored.size());
  room.other.resize(room.stored.size());
  if (n_stored < LEAST_KEYS_FOR_DIGITS)
    return std::sort(room.stored.begin(), room.stored.end(),
                     [](const StoredValue& a, const StoredValue& b) {
                       return std::pair(a.column, a.place) < std::pair(b.column, b.place);
                     });
  // They are in the order of rows already, which sorting by digits keeps.
  sort_by_digits(room.stored.data(), room.other.data(), n_stored,
                 [](const StoredValue& v) { return v.column; });
}

uint8_t* write_stored(const StoredValue* begin, const StoredValue* end, int64_t n, BlockRoom& room,
                      uint8_t* out) {
  room.places.clear();
  room.values.clear();
  for (const StoredValue* v = begin; v < end; ++v) {
    room.places.push_back(v->place);
    room.values.push_back(v->value);
  }
  if (are_few(end - begin, n))
    return write_few(begin->column, room.places, room.values.data(), out);
  room.whole.assign(n, 0.0);
  for (const StoredValue* v = begin; v < end; ++v) room.whole[v->place] = v->value;
  return write_column(begin->column, room.whole.data(), n, out);
}

// The bytes of all columns of the rows [first, first + n) of a table that is stored by rows.
nb::bytes canonical_block(const SparseTable& table, int64_t first, int64_t n) {
  require(table.by_rows() && first >= 0 && n >= 0 && first + n <= table.n_rows() && n <= MOST_ROWS,
          "rows out of range");
  thread_local BlockRoom room;
  int64_t n_bytes = 0;
  {
    WithoutGil released;
    read_block(table, first, n, room);
    // Columns that are written whole have a value in one row of ZEROS_OF_FEW.
    const size_t most = (room_of(1) + ZEROS_OF_FEW * sizeof(double)) * room.stored.size();
    // Most of it is never written to, and never there.
    if (room.n_out < most) room.out.reset(new uint8_t[room.n_out = most]);
    uint8_t* out = room.out.get();
    const StoredValue *at = room.stored.data(), *last = at + room.stored.size();
    for (const StoredValue* end; at < last; at = end) {
      end = std::find_if(at, last, [at](const StoredValue& v) { return v.column != at->column; });
      out = write_stored(at, end, n, room, out);
    }
    n_bytes = out - room.out.get();
  }
  return nb::bytes(room.out.get(), n_bytes);
}

}  // namespace

void init_canonical(nb::module_& m) {
  nb::class_<CanonicalRows>(m, "CanonicalRows", "Columns as the bytes that fingerprints hash.")
      .def(nb::init<const nb::list&, int64_t>(), "columns"_a, "n_rows"_a)
      .def("write", &CanonicalRows::write, "first"_a, "n"_a, "begin"_a, "end"_a, "out"_a,
           "Writes the columns [begin, end) of some rows; returns the number of bytes.");
  m.def("canonical_room", &room_of, "n_rows"_a,
        "Bytes that a column of so many rows takes at most.");
  m.def("canonical_block", &canonical_block, "table"_a, "first"_a, "n"_a,
        "The same bytes of all columns, of some rows of a sparse table.");
}

}  // namespace bitgrove
