// What is asked of a sparse table before it is binned: counts, values by column, edges.
#include "sparse/sparse_table.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/gil.h"
#include "bindings/numpy_arrays.h"
#include "common/key_sort.h"
#include "common/parallel.h"
#include "cuts.h"

namespace bitgrove {
namespace {

constexpr int64_t CHECKED_LISTS = 1024;  // of a task
constexpr int64_t SURVEYED_VALUES = 8;   // per column, for each thread that counts
constexpr int64_t CUT_COLUMNS = 256;     // of a task

bool is_wide(const SparseTable::Array& array) {
  const bool wide = array.dtype() == nb::dtype<int64_t>();
  require(wide || array.dtype() == nb::dtype<int32_t>(), "pointers and indices are integers");
  return wide;
}

// Whether each row is looked at; none given: all are.
struct Sampled {
  const uint8_t* marks;
  int64_t n_rows;

  bool has(int64_t row) const {
    return !marks || (static_cast<uint64_t>(row) < static_cast<uint64_t>(n_rows) && marks[row]);
  }
};

Sampled sampled_of(const SparseTable& table, const Optional<const uint8_t>& marks) {
  require(!marks || static_cast<int64_t>(marks->shape(0)) == table.n_rows(), "one mark per row");
  return {marks ? marks->data() : nullptr, table.n_rows()};
}

// Calls visit(column, k) for the stored values of the sampled rows, those of some lists.
template <class Visit>
void visit_lists(const SparseTable& table, Sampled rows, int64_t begin, int64_t end,
                 Visit&& visit) {
  for (int64_t list = begin; list < end; ++list) {
    if (table.by_rows() && !rows.has(list)) continue;
    for (int64_t k = table.begin(list), last = table.end(list); k < last; ++k)
      if (table.by_rows())
        visit(table.index(k), k);
      else if (rows.has(table.index(k)))
        visit(list, k);
  }
}

// What is asked of every column.
struct Survey {
  std::vector<int64_t> filled;   // how many values are not zero
  std::vector<uint8_t> missing;  // whether some are missing

  explicit Survey(int64_t n_columns) : filled(n_columns), missing(n_columns) {}

  void look(int64_t column, double value) {
    filled[column] += value != 0.0;
    missing[column] |= value != value;
  }
  void add(const Survey& other) {
    for (size_t c = 0; c < filled.size(); ++c) {
      filled[c] += other.filled[c];
      missing[c] |= other.missing[c];
    }
  }
};

// Each thread counts on its own, where that takes less memory than the values do.
Survey survey_of(const SparseTable& table, Sampled rows, int n_threads) {
  table.check(n_threads);
  const int64_t n_columns = table.n_columns(), n_lists = table.n_lists();
  const int64_t most = table.n_values() / (SURVEYED_VALUES * std::max<int64_t>(n_columns, 1));
  const int64_t n_parts = std::clamp<int64_t>(most, 1, std::max(1, n_threads));
  std::vector<Survey> parts(n_parts, Survey(n_columns));
  parallel_tasks(n_parts, n_threads, [&](int64_t part) {
    visit_lists(table, rows, n_lists * part / n_parts, n_lists * (part + 1) / n_parts,
                [&](int64_t column, int64_t k) { parts[part].look(column, table.value(k)); });
  });
  for (int64_t part = 1; part < n_parts; ++part) parts[0].add(parts[part]);
  return std::move(parts[0]);
}

// (how many values are not zero, whether some are missing), of each column among the sampled rows.
nb::tuple survey(const SparseTable& table, const Optional<const uint8_t>& rows, int n_threads) {
  const Sampled sampled = sampled_of(table, rows);
  std::optional<Survey> found;
  {
    WithoutGil released;
    found = survey_of(table, sampled, n_threads);
  }
  const size_t n = found->filled.size();
  return nb::make_tuple(to_numpy(std::move(found->filled), {n}),
                        to_numpy(std::move(found->missing), {n}));
}

// Where the values of some columns go: those of column first + c from begin[c] on.
class Gathering {
 public:
  Gathering(const SparseTable& table, Sampled rows, int64_t first,
            const Vector<const int64_t>& counts)
      : table_(table), rows_(rows), first_(first), begin_(counts.shape(0) + 1) {
    for (size_t c = 0; c < counts.shape(0); ++c) begin_[c + 1] = begin_[c] + counts(c);
    next_.assign(begin_.begin(), begin_.end() - 1);
    values.resize(begin_.back());
  }

  // Part p of n parts with about as many values each.
  void gather(int64_t p, int64_t n) {
    const int64_t from = first_ + border(p, n), to = first_ + border(p + 1, n);
    if (!table_.by_rows())
      return visit_lists(table_, rows_, from, to,
                         [&](int64_t column, int64_t k) { keep(column, k); });
    for (int64_t row = 0; row < table_.n_rows(); ++row) {
      if (!rows_.has(row)) continue;
      const int64_t end = table_.end(row);
      for (int64_t k = table_.first_from(row, from); k < end && table_.index(k) < to; ++k)
        keep(table_.index(k), k);
    }
  }

  bool is_full() const { return std::equal(next_.begin(), next_.end(), begin_.begin() + 1); }

  std::vector<double> values;

 private:
  int64_t border(int64_t p, int64_t n) const {
    if (p == n) return static_cast<int64_t>(next_.size());
    return std::lower_bound(begin_.begin(), begin_.end() - 1, begin_.back() * p / n) -
           begin_.begin();
  }
  void keep(int64_t column, int64_t k) {
    const int64_t c = column - first_;
    if (table_.value(k) != 0.0 && next_[c] < begin_[c + 1]) values[next_[c]++] = table_.value(k);
  }

  const SparseTable& table_;
  Sampled rows_;
  int64_t first_;
  std::vector<int64_t> begin_, next_;
};

// The values that are not zero, column after column; counts: of the columns [first, last). Each
// thread looks for those of some columns.
nb::ndarray<nb::numpy, double> gather_values(const SparseTable& table,
                                             const Optional<const uint8_t>& rows, int64_t first,
                                             const Vector<const int64_t>& counts, int n_threads) {
  const Sampled sampled = sampled_of(table, rows);
  require(first >= 0 && first + static_cast<int64_t>(counts.shape(0)) <= table.n_columns(),
          "columns out of range");
  Gathering found(table, sampled, first, counts);
  {
    WithoutGil released;
    table.check_pointers();
    const int64_t n_parts = std::max(1, n_threads);
    parallel_tasks(n_parts, n_threads, [&](int64_t part) { found.gather(part, n_parts); });
  }
  require(found.is_full(), "a column has other values than were counted");
  const size_t n = found.values.size();
  return to_numpy(std::move(found.values), {n});
}

// Sorted keys with a run of zeros among them that is not stored.
struct KeysWithZeros {
  const uint64_t* stored;
  int64_t n_below, n_zeros;

  uint64_t operator[](int64_t i) const {
    if (i < n_below) return stored[i];
    return i < n_below + n_zeros ? KeyBits<uint64_t>::sign : stored[i - n_zeros];
  }
};

struct Alone {
  int lane = 0, size = 1;
  void sync() const {}
};

// Fills the edges of a column with these values, which are used up, and zeros; returns how many.
int32_t cut_column(uint64_t* keys, int64_t n_values, int64_t n_rows, int32_t max_bin,
                   double* edges) {
  std::sort(keys, keys + n_values);
  const int64_t n_below = std::lower_bound(keys, keys + n_values, KeyBits<uint64_t>::sign) - keys;
  CutWork work;
  Cutter<uint64_t, Alone, KeysWithZeros> cutter{
      {keys, n_below, n_rows - n_values}, static_cast<int32_t>(n_rows), max_bin, work, {}};
  return cutter.cut(edges);
}

// (edges, column after column; how many each has). counts: values of each column, none of them
// zero; the other of its n_rows rows are.
nb::tuple cut_columns(const Vector<const int64_t>& counts, const Vector<const double>& values,
                      int64_t n_rows, int32_t max_bin, int n_threads) {
  require(max_bin >= 2 && max_bin < BINS_PER_FEATURE, "max_bin is not from 2 to 255");
  require(n_rows < INT32_MAX, "too many rows");
  const auto n_columns = static_cast<int64_t>(counts.shape(0));
  std::vector<int64_t> begin(n_columns + 1), room(n_columns + 1);
  for (int64_t c = 0; c < n_columns; ++c) {
    require(counts(c) >= 0 && counts(c) <= n_rows, "a column has more values than rows");
    begin[c + 1] = begin[c] + counts(c);
    room[c + 1] = room[c] + std::min<int64_t>(counts(c), max_bin - 1);
  }
  require(begin.back() == static_cast<int64_t>(values.shape(0)), "counts do not fit the values");
  std::vector<double> edges(room.back());
  std::vector<int64_t> n_edges(n_columns);
  const double* value = values.data();
  {
    WithoutGil released;
    parallel_tasks(blocks_of(n_columns, CUT_COLUMNS), n_threads, [&](int64_t task) {
      std::vector<uint64_t> keys;
      const int64_t last = std::min((task + 1) * CUT_COLUMNS, n_columns);
      for (int64_t c = task * CUT_COLUMNS; c < last; ++c) {
        keys.clear();
        for (int64_t k = begin[c]; k < begin[c + 1]; ++k)
          keys.push_back(key_of_bits(std::bit_cast<uint64_t>(value[k])));
        double found[BINS_PER_FEATURE];
        n_edges[c] = cut_column(keys.data(), counts(c), n_rows, max_bin, found);
        std::copy_n(found, n_edges[c], edges.data() + room[c]);
      }
    });
  }
  int64_t n_all = 0;
  for (int64_t c = 0; c < n_columns; ++c) {
    std::copy_n(edges.data() + room[c], n_edges[c], edges.data() + n_all);
    n_all += n_edges[c];
  }
  edges.resize(n_all);
  return nb::make_tuple(to_numpy(std::move(edges), {static_cast<size_t>(n_all)}),
                        to_numpy(std::move(n_edges), {static_cast<size_t>(n_columns)}));
}

}  // namespace

SparseTable::SparseTable(Array pointers, Array indices, Array values, int64_t n_rows,
                         int64_t n_columns, bool by_rows)
    : pointers_(std::move(pointers)),
      indices_(std::move(indices)),
      values_(std::move(values)),
      n_rows_(n_rows),
      n_columns_(n_columns),
      by_rows_(by_rows),
      wide_pointers_(is_wide(pointers_)),
      wide_indices_(is_wide(indices_)),
      doubles_(values_.dtype() == nb::dtype<double>()) {
  require(doubles_ || values_.dtype() == nb::dtype<float>(), "values are float32 or float64");
  require(n_rows >= 0 && n_columns >= 0 && n_rows < INT32_MAX && n_columns < INT32_MAX,
          "bad shape");
  require(static_cast<int64_t>(pointers_.shape(0)) == n_lists() + 1 &&
              indices_.shape(0) >= values_.shape(0),
          "pointers, indices and values do not fit");
}

void SparseTable::check_pointers() const {
  bool ok = begin(0) >= 0 && begin(n_lists()) <= n_values();
  for (int64_t i = 0; i < n_lists(); ++i) ok &= begin(i) <= end(i);
  require(ok, "the pointers of a sparse table do not increase");
}

void SparseTable::check(int n_threads) const {
  check_pointers();
  const int64_t most = by_rows_ ? n_columns_ : n_rows_;
  std::atomic<bool> in_range{true}, sorted{true};
  parallel_tasks(blocks_of(n_lists(), CHECKED_LISTS), n_threads, [&](int64_t task) {
    const int64_t last = std::min((task + 1) * CHECKED_LISTS, n_lists());
    bool good = true, increasing = true;
    for (int64_t list = task * CHECKED_LISTS; list < last; ++list) {
      int64_t before = -1;
      for (int64_t k = begin(list), stop = end(list); k < stop; ++k) {
        const int64_t here = index(k);
        good &= static_cast<uint64_t>(here) < static_cast<uint64_t>(most);
        increasing &= here > before;
        before = here;
      }
    }
    if (!good) in_range = false;
    if (!increasing) sorted = false;
  });
  require(in_range, "an index of a sparse table is out of range");
  require(sorted, "the indices of a sparse table are not sorted any more");
}

void init_sparse_table(nb::module_& m) {
  nb::class_<SparseTable>(m, "SparseTable", "Stored values by rows (CSR) or by columns (CSC).")
      .def(nb::init<SparseTable::Array, SparseTable::Array, SparseTable::Array, int64_t, int64_t,
                    bool>(),
           "pointers"_a, "indices"_a, "values"_a, "n_rows"_a, "n_columns"_a, "by_rows"_a)
      .def("survey", &survey, "rows"_a.none(), "n_threads"_a,
           "(how many values are not zero, whether some are missing), of each column, among the "
           "marked rows.")
      .def("gather_values", &gather_values, "rows"_a.none(), "first"_a, "counts"_a, "n_threads"_a,
           "The values that are not zero, column after column, of the columns from `first` on.");
  m.def("cut_columns", &cut_columns, "counts"_a, "values"_a, "n_rows"_a, "max_bin"_a, "n_threads"_a,
        "Edges of columns with these values and zeros, and how many each has.");
}

}  // namespace bitgrove
