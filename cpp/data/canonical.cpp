// Rows in a canonical form, for fingerprints: the same bytes for the same values, whatever type and
// layout they came in. docs/verification.md says what the bytes are.
#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "bindings/rooms.h"
#include "data/columns.h"

namespace bitgrove {
namespace {

static_assert(std::endian::native == std::endian::little, "the form is little-endian");

// Rows read at a time: their part of a row-major table stays in L1 while columns are picked.
constexpr int64_t PICKED_ROWS = 256;
constexpr uint8_t AS_BYTES = 1, AS_FLOATS = 4, AS_DOUBLES = 8;  // also the bytes of a value
constexpr double MAX_BYTE = 254.0;                              // 255 is a missing value
constexpr uint8_t MISSING_BYTE = 255;
constexpr int64_t CHECKED_TOGETHER = 64;  // values between two looks whether one did not fit

// -0 becomes +0, every NaN the same one.
template <class Real>
void pick(const Column& column, int64_t begin, int64_t n, double* out) {
  const Real* p = column.at<Real>(begin);
  for (int64_t i = 0; i < n; ++i) {
    const Real v = p[i * column.stride];
    out[i] = v != v ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(v) + 0.0;
  }
}

bool fits_byte(double v) {
  const double near = (v >= 0.0) & (v <= MAX_BYTE) ? v : 0.5;  // an int32 cannot hold all doubles
  return (v != v) | (near == static_cast<int32_t>(near));
}

bool fits_float(double v) { return (v != v) | (static_cast<float>(v) == v); }

template <class Fits>
bool all_fit(const double* values, int64_t n, Fits fits) {
  for (int64_t begin = 0; begin < n; begin += CHECKED_TOGETHER) {
    const int64_t end = begin + CHECKED_TOGETHER < n ? begin + CHECKED_TOGETHER : n;
    bool ok = true;
    for (int64_t i = begin; i < end; ++i) ok &= fits(values[i]);
    if (!ok) return false;
  }
  return true;
}

// A byte that says the width, then the values in it; returns the end.
uint8_t* write_column(const double* values, int64_t n, uint8_t* out) {
  if (all_fit(values, n, fits_byte)) {
    *out++ = AS_BYTES;
    for (int64_t i = 0; i < n; ++i)
      out[i] = values[i] != values[i] ? MISSING_BYTE : static_cast<uint8_t>(values[i]);
    return out + n;
  }
  if (all_fit(values, n, fits_float)) {
    *out++ = AS_FLOATS;
    for (int64_t i = 0; i < n; ++i) {
      const float narrow = values[i] != values[i] ? std::numeric_limits<float>::quiet_NaN()
                                                  : static_cast<float>(values[i]);
      std::memcpy(out + i * sizeof narrow, &narrow, sizeof narrow);
    }
    return out + n * sizeof(float);
  }
  *out++ = AS_DOUBLES;
  std::memcpy(out, values, n * sizeof(double));
  return out + n * sizeof(double);
}

// The columns of a table, to be written some rows at a time, by several threads at once.
class CanonicalRows {
 public:
  CanonicalRows(const nb::list& columns, int64_t n_rows)
      : kept_(columns), columns_(columns_of(columns, n_rows)), n_rows_(n_rows) {
    for (const Column& column : columns_)
      require(column.type != ColumnType::BINS, "a column holds bins instead of values");
  }

  // Writes the rows [first, first + n), column after column; returns the number of bytes.
  int64_t write(int64_t first, int64_t n, Vector<uint8_t> out) const {
    require(first >= 0 && n >= 0 && first + n <= n_rows_, "rows out of range");
    const int64_t n_columns = columns_.size();
    require(static_cast<int64_t>(out.shape(0)) >= n_columns * (1 + 8 * n), "out too small");
    uint8_t* const start = out.data();
    nb::gil_scoped_release release;
    thread_local std::vector<double> values;  // kept: new memory costs more than writing to it
    if (static_cast<int64_t>(values.size()) < n_columns * n) values.resize(n_columns * n);
    for (int64_t begin = 0; begin < n; begin += PICKED_ROWS) {
      const int64_t count = begin + PICKED_ROWS < n ? PICKED_ROWS : n - begin;
      for (int64_t f = 0; f < n_columns; ++f) {
        double* to = values.data() + f * n + begin;
        if (columns_[f].type == ColumnType::FLOAT64)
          pick<double>(columns_[f], first + begin, count, to);
        else
          pick<float>(columns_[f], first + begin, count, to);
      }
    }
    uint8_t* end = start;
    for (int64_t f = 0; f < n_columns; ++f) end = write_column(values.data() + f * n, n, end);
    return end - start;
  }

 private:
  nb::list kept_;  // the arrays stay alive
  std::vector<Column> columns_;
  int64_t n_rows_;
};

}  // namespace

void init_canonical(nb::module_& m) {
  nb::class_<CanonicalRows>(m, "CanonicalRows", "Columns as the bytes that fingerprints hash.")
      .def(nb::init<const nb::list&, int64_t>(), "columns"_a, "n_rows"_a)
      .def("write", &CanonicalRows::write, "first"_a, "n"_a, "out"_a,
           "Writes rows, column after column; returns the number of bytes.");
}

}  // namespace bitgrove
