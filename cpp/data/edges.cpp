// The edges of all features from a sample of rows: keys of its values, sorted, then cut (cuts.h).
#include "data/edges.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <memory>
#include <vector>

#include "bindings/gil.h"
#include "bindings/numpy_arrays.h"
#include "bindings/rooms.h"
#include "common/key_sort.h"
#include "common/parallel.h"
#include "cuts.h"
#include "data/columns.h"

namespace bitgrove {
namespace {

// Features at work at once: some for each thread, and of a row-major table whole cache lines.
constexpr int64_t STRIP_FEATURES = 64;
// Rows of a strip that are turned from rows to columns in L1.
constexpr int64_t TURN_ROWS = 32;
constexpr int64_t TAKE_ROWS = 4096;
// Keys below which waking other threads takes longer than the work.
constexpr int64_t LEAST_KEYS = 16384;

struct Alone {
  int lane = 0, size = 1;
  void sync() const {}
};

// Rows of a table that are looked at: all, or the listed ones.
struct SampleRows {
  const int32_t* listed;
  int64_t n_rows;

  int64_t at(int64_t i) const { return listed ? listed[i] : i; }
};

template <class Key>
struct RealOf;
template <>
struct RealOf<uint32_t> {
  using type = float;
};
template <>
struct RealOf<uint64_t> {
  using type = double;
};

template <class Key>
Key key_at(const Column& column, int64_t row) {
  return key_of_bits(std::bit_cast<Key>(*column.at<typename RealOf<Key>::type>(row)));
}

// The keys of some columns of one type, each in a row of its own.
template <class Key>
class Strip {
  using Real = typename RealOf<Key>::type;

 public:
  Strip(int64_t n_columns, SampleRows rows) : rows_(rows), stride_(padded(rows.n_rows)) {
    keys_ = std::unique_ptr<Key[]>(new Key[n_columns * stride_]);
  }

  Key* of(int64_t column) { return keys_.get() + column * stride_; }

  void take(const std::vector<Column>& columns, int n_threads) {
    parallel_tasks(blocks_of(rows_.n_rows, TAKE_ROWS), n_threads, [&](int64_t task) {
      const int64_t begin = task * TAKE_ROWS, end = std::min(begin + TAKE_ROWS, rows_.n_rows);
      take_neighbours(columns, begin, end);
      take_turned(columns, begin, end);
    });
  }

 private:
  // An odd number of cache lines: columns of 2^k rows do not all meet in the same lines of a cache.
  static int64_t padded(int64_t n) {
    const int64_t line = 64 / sizeof(Key);
    return (blocks_of(n, line) | 1) * line;
  }

  // Columns whose values are neighbours are read one after the other.
  void take_neighbours(const std::vector<Column>& columns, int64_t begin, int64_t end) {
    for (size_t c = 0; c < columns.size(); ++c) {
      if (columns[c].stride != 1) continue;
      Key* keys = of(c);
      for (int64_t i = begin; i < end; ++i) keys[i] = key_at<Key>(columns[c], rows_.at(i));
    }
  }

  // The others row by row, as they lie in a row-major table.
  void take_turned(const std::vector<Column>& columns, int64_t begin, int64_t end) {
    std::vector<int64_t> turned;
    for (size_t c = 0; c < columns.size(); ++c)
      if (columns[c].stride != 1) turned.push_back(c);
    const int64_t width = turned.size();
    if (width == 0) return;
    const Real* first = columns[turned[0]].template at<Real>(0);
    bool is_table = true;
    for (int64_t k = 0; k < width; ++k) {
      const Column& column = columns[turned[k]];
      is_table &= column.stride == columns[turned[0]].stride && column.data == first + k;
    }
    Key block[TURN_ROWS][STRIP_FEATURES];
    for (int64_t i = begin; i < end; i += TURN_ROWS) {
      const int64_t n = std::min(TURN_ROWS, end - i);
      for (int64_t r = 0; r < n; ++r) {
        const int64_t row = rows_.at(i + r);
        if (is_table) {
          const Real* values = first + row * columns[turned[0]].stride;
          for (int64_t k = 0; k < width; ++k)
            block[r][k] = key_of_bits(std::bit_cast<Key>(values[k]));
        } else {
          for (int64_t k = 0; k < width; ++k) block[r][k] = key_at<Key>(columns[turned[k]], row);
        }
      }
      for (int64_t k = 0; k < width; ++k) {
        Key* keys = of(turned[k]) + i;
        for (int64_t r = 0; r < n; ++r) keys[r] = block[r][k];
      }
    }
  }

  SampleRows rows_;
  int64_t stride_;
  std::unique_ptr<Key[]> keys_;
};

// Distinct keys that are looked for before keys are sorted: those of flags, counts and constants.
constexpr int32_t FEW_KEYS = 16;

// The distinct keys in ascending order if there are at most `most`, else none. Blocks of keys that
// are all known take a comparison for each of them, by vectors.
template <class Key>
std::vector<Key> few_keys(const Key* keys, int64_t n, int32_t most) {
  constexpr int64_t BLOCK = 64;
  std::vector<Key> found;
  const auto learn = [&](const Key* block, int64_t n_here) {
    for (int64_t i = 0; i < n_here; ++i)
      if (std::find(found.begin(), found.end(), block[i]) == found.end()) found.push_back(block[i]);
  };
  int64_t begin = 0;
  for (; begin + BLOCK <= n && std::ssize(found) <= most; begin += BLOCK) {
    const Key* block = keys + begin;
    Key unknown[BLOCK], any = 0;
    std::fill_n(unknown, BLOCK, ~Key{0});
    for (const Key known : found)
      for (int64_t i = 0; i < BLOCK; ++i) unknown[i] &= block[i] == known ? Key{0} : ~Key{0};
    for (int64_t i = 0; i < BLOCK; ++i) any |= unknown[i];
    if (any) learn(block, BLOCK);
  }
  if (std::ssize(found) <= most) learn(keys + begin, n - begin);
  if (std::ssize(found) > most) found.clear();
  std::sort(found.begin(), found.end());
  return found;
}

struct FoundEdges {
  std::vector<double> values;  // (n_features, max_bin - 1)
  std::vector<int64_t> n_edges;
};

// Edges of the features whose columns have keys of this type.
template <class Key>
void find_edges_of(const std::vector<Column>& columns, SampleRows rows, int32_t max_bin,
                   int n_threads, FoundEdges& found) {
  std::vector<int64_t> features;
  const ColumnType type = sizeof(Key) == 8 ? ColumnType::FLOAT64 : ColumnType::FLOAT32;
  for (size_t f = 0; f < columns.size(); ++f)
    if (columns[f].type == type) features.push_back(f);
  if (features.empty()) return;
  const int64_t n_features = features.size(), width = std::min(n_features, STRIP_FEATURES);
  if (n_features * rows.n_rows < LEAST_KEYS) n_threads = 1;
  Strip<Key> strip(width, rows), others(n_threads, rows);
  std::vector<Column> part;
  for (int64_t first = 0; first < n_features; first += width) {
    const int64_t n = std::min(width, n_features - first);
    part.clear();
    for (int64_t c = 0; c < n; ++c) part.push_back(columns[features[first + c]]);
    strip.take(part, n_threads);
    parallel_tasks(n, n_threads, [&](int64_t c, int member) {
      const int64_t feature = features[first + c];
      std::vector<Key> few = few_keys(strip.of(c), rows.n_rows, std::min(FEW_KEYS, max_bin));
      // Of few values each is a bin, however many rows have it.
      const Key* keys = few.empty() ? strip.of(c) : few.data();
      const int64_t n_keys = few.empty() ? rows.n_rows : std::ssize(few);
      if (few.empty()) sort_keys(strip.of(c), others.of(member), rows.n_rows);
      CutWork work;
      Cutter<Key, Alone> cutter{keys, static_cast<int32_t>(n_keys), max_bin, work, {}};
      found.n_edges[feature] = cutter.cut(found.values.data() + feature * (max_bin - 1));
    });
  }
}

// (edges of each feature, one row each; how many of a row are edges).
nb::tuple find_edges(const nb::list& columns, int64_t n_rows, const Optional<const int32_t>& rows,
                     int32_t max_bin, int n_threads) {
  require(max_bin >= 2 && max_bin < BINS_PER_FEATURE, "max_bin is not from 2 to 255");
  const std::vector<Column> sources = columns_of(columns, n_rows);
  for (const Column& column : sources)
    require(column.type != ColumnType::BINS, "bins have edges already");
  SampleRows sample{nullptr, n_rows};
  if (rows) {
    sample = {rows->data(), static_cast<int64_t>(rows->shape(0))};
    for (int64_t i = 0; i < sample.n_rows; ++i)
      require(sample.at(i) >= 0 && sample.at(i) < n_rows, "a row of the sample is out of range");
  }
  const size_t n_features = sources.size(), width = max_bin - 1;
  FoundEdges found{std::vector<double>(n_features * width), std::vector<int64_t>(n_features)};
  {
    WithoutGil released;
    find_edges_of<uint32_t>(sources, sample, max_bin, n_threads, found);
    find_edges_of<uint64_t>(sources, sample, max_bin, n_threads, found);
  }
  return nb::make_tuple(to_numpy(std::move(found.values), {n_features, width}),
                        to_numpy(std::move(found.n_edges), {n_features}));
}

}  // namespace

void init_edges(nb::module_& m) {
  m.def("find_edges", &find_edges, "columns"_a, "n_rows"_a, "rows"_a.none(), "max_bin"_a,
        "n_threads"_a,
        "At most max_bin - 1 increasing edges of each column, from all or the listed rows.");
}

}  // namespace bitgrove
