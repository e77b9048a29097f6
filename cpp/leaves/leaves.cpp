// Leaves of a finished tree: which rows are in which, sums of the original gradients, quantiles of
// the residuals, and adding leaf values to scores. Rows that were not there when it grew are
// walk.cpp.
#include <algorithm>
#include <atomic>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "bindings/gil.h"
#include "bindings/numpy_arrays.h"
#include "bindings/records.h"
#include "bindings/rooms.h"
#include "common/parallel.h"
#include "gain.h"
#include "math.h"
#include "objectives/labels.h"

namespace bitgrove {
namespace {

// Sums over leaves are made per task: tasks of many rows, but some for every thread.
constexpr int64_t SUM_TASKS_PER_THREAD = 4, PIECE = 256;
// Values of a digit of a key.
constexpr int64_t N_DIGITS = 256;

// leaf_of: per row the number of its leaf in one, two or four bytes; n_leaves for a row in none.
using LeafNumbers = GivenArray<nb::ndim<1>>;

template <class Visit>
void visit_leaves(const LeafNumbers& leaf_of, Visit&& visit) {
  void* data = leaf_of.data();
  switch (leaf_of.itemsize()) {
    case 1:
      return visit(static_cast<uint8_t*>(data));
    case 2:
      return visit(static_cast<uint16_t*>(data));
    case 4:
      return visit(static_cast<uint32_t*>(data));
    default:
      throw std::invalid_argument("bitgrove core: leaf numbers of unknown width");
  }
}

// Runs body(begin, end) on parts of the rows: few, because each makes counts for all leaves.
template <class Body>
void parts_of_rows(int64_t n_rows, int n_threads, Body&& body) {
  n_threads = threads_for_rows(n_rows, n_threads);
  const int64_t n_tasks =
      n_threads == 1 ? 1 : std::min(SUM_TASKS_PER_THREAD * n_threads, blocks_of(n_rows, ROW_BLOCK));
  parallel_tasks(n_tasks, n_threads, [&](int64_t task) {
    body(n_rows * task / n_tasks, n_rows * (task + 1) / n_tasks);
  });
}

// Rows of a leaf that ascend, and how many of them were looked at.
struct Run {
  int64_t leaf;
  const int32_t *next, *end;
};

// Leaves are located in so many rows at a time: their numbers stay in the L1 cache. More where runs
// are short, of each of which so many rows should be among them.
constexpr int64_t LOCATED_ROWS = 16384, LOCATED_ROWS_PER_RUN = 8;

// Where the rows from begin on stop ascending: looked for in pieces, by vectors.
const int32_t* ascending_until(const int32_t* begin, const int32_t* end, Simd simd) {
  for (const int32_t* piece = begin; end - piece > 1; piece += PIECE) {
    const int64_t n = std::min<int64_t>(PIECE, end - piece - 1);
    int32_t n_falls = 0;
    with_simd<Simd::avx2>(simd, [&n_falls, piece, n] {
      int32_t count = 0;
      for (int64_t i = 0; i < n; ++i) count += piece[i + 1] < piece[i];
      n_falls = count;
    });
    if (n_falls > 0) return std::is_sorted_until(piece, end);
  }
  return end;
}

// The rows of a leaf are two runs (partition.cpp), or any number of them.
std::vector<Run> ascending_runs(const Vector<const int32_t>& rows,
                                const Vector<const int64_t>& begins,
                                const Vector<const int64_t>& ends, Simd simd) {
  require(begins.shape(0) == ends.shape(0), "begins and ends differ in length");
  std::vector<Run> runs;
  for (size_t leaf = 0; leaf < begins.shape(0); ++leaf) {
    require(0 <= begins(leaf) && begins(leaf) <= ends(leaf) &&
                ends(leaf) <= static_cast<int64_t>(rows.shape(0)),
            "bad leaf range");
    const int32_t *next = rows.data() + begins(leaf), *end = rows.data() + ends(leaf);
    while (next < end) {
      const int32_t* begin = next;
      next = ascending_until(begin, end, simd);
      runs.push_back({static_cast<int64_t>(leaf), begin, next});
    }
  }
  return runs;
}

// Writes the numbers of the leaves of the rows [begin, end).
template <class Leaf>
void locate_rows(std::vector<Run> runs, int64_t begin, int64_t end, Leaf* leaf_of) {
  const auto n_runs = static_cast<int64_t>(runs.size());
  const int64_t n_rows = std::max(LOCATED_ROWS, n_runs * LOCATED_ROWS_PER_RUN);
  for (Run& run : runs) run.next = std::lower_bound(run.next, run.end, begin);
  for (int64_t first = begin; first < end; first += n_rows) {
    const int64_t last = std::min(first + n_rows, end);
    for (Run& run : runs) {
      const auto number = static_cast<Leaf>(run.leaf);
      const int32_t* next = run.next;
      for (; next < run.end && *next < last; ++next) leaf_of[*next] = number;
      run.next = next;
    }
  }
}

// From row lists to row order: one scattered byte per row here, and everything after it is read in
// order.
void locate_leaves(const Vector<const int32_t>& rows, const Vector<const int64_t>& begins,
                   const Vector<const int64_t>& ends, const LeafNumbers& leaf_of, int n_threads,
                   int simd) {
  const int64_t n_rows = leaf_of.shape(0), n_leaves = begins.shape(0);
  require(
      static_cast<int64_t>(rows.shape(0)) <= n_rows && n_leaves >> (8 * leaf_of.itemsize()) == 0,
      "too many leaves or listed rows");
  WithoutGil released;
  const std::vector<Run> runs = ascending_runs(rows, begins, ends, static_cast<Simd>(simd));
  int64_t n_located = 0;
  for (const Run& run : runs) n_located += run.end - run.next;
  visit_leaves(leaf_of, [&](auto* leaf) {
    using Leaf = std::remove_pointer_t<decltype(leaf)>;
    if (n_located < n_rows) std::fill_n(leaf, n_rows, static_cast<Leaf>(n_leaves));
    parts_of_rows(n_rows, n_threads,
                  [&](int64_t begin, int64_t end) { locate_rows(runs, begin, end, leaf); });
  });
}

// Integers that may wrap around: the rows of a sample fit their unit, and sums of others are made,
// because leaving them out would take longer, but not used.
using Wrapping = uint64_t;

// Rounds to a multiple of one: the fixed point of fixed_point.py, |x| < 2^51.
BG_FN Wrapping fixed(double x) {
  return static_cast<Wrapping>(bits_of_double(x + ROUNDING_SHIFT)) -
         static_cast<Wrapping>(bits_of_double(ROUNDING_SHIFT));
}

BG_FN void fix(const float* values, double unit, int64_t n, Wrapping* BG_RESTRICT out) {
  for (int64_t i = 0; i < n; ++i) out[i] = fixed(static_cast<double>(values[i]) * unit);
}

struct GradientUnits {
  const float *grad, *hess;  // hess null: every row counts one
  double grad_unit, hess_unit;
};

// Neighbours are often in the same leaf. They add to different copies of its sums, so that none
// waits for the one before; of very many leaves copies would not stay in the L1 cache.
constexpr int64_t SUM_COPIES = 4, LEAVES_OF_COPIES = 512;

struct LeafTotals {
  explicit LeafTotals(int64_t n_leaves)
      : n_copies(n_leaves <= LEAVES_OF_COPIES ? SUM_COPIES : 1), sums(n_copies * (n_leaves + 1)) {}

  TwoWords of_leaf(int64_t leaf) const {
    TwoWords sum{};
    for (int64_t copy = 0; copy < n_copies; ++copy) sum += sums[leaf * n_copies + copy];
    return sum;
  }

  int64_t n_copies;
  std::vector<TwoWords> sums;  // gradient and hessian of each leaf, and of no leaf
};

// Adds the rows [begin, end).
template <class Leaf>
BG_FN void add_rows(const GradientUnits& rows, const Leaf* leaf_of, int64_t begin, int64_t end,
                    LeafTotals& totals) {
  Wrapping grad[PIECE], hess[PIECE];
  std::fill_n(hess, PIECE, 1);
  TwoWords* sums = totals.sums.data();
  const int64_t n_copies = totals.n_copies;
  for (int64_t first = begin; first < end; first += PIECE) {
    const int64_t n = std::min(PIECE, end - first);
    fix(rows.grad + first, rows.grad_unit, n, grad);
    if (rows.hess) fix(rows.hess + first, rows.hess_unit, n, hess);
    for (int64_t i = 0; i < n; ++i)
      sums[leaf_of[first + i] * n_copies + (i & (n_copies - 1))] += TwoWords{grad[i], hess[i]};
  }
}

RecordArray leaf_sums(const LeafNumbers& leaf_of, int64_t n_leaves, const Vector<const float>& grad,
                      const Optional<const float>& hess, double grad_unit, double hess_unit,
                      int n_threads, int simd) {
  const int64_t n_rows = grad.shape(0);
  require(static_cast<int64_t>(leaf_of.shape(0)) == n_rows &&
              (!hess || hess->shape(0) == grad.shape(0)),
          "leaf_of, grad and hess differ in length");
  const GradientUnits rows{grad.data(), hess ? hess->data() : nullptr, grad_unit, hess_unit};
  std::vector<GradientSums> sums(n_leaves);
  {
    WithoutGil released;
    visit_leaves(leaf_of, [&](auto* leaf) {
      parts_of_rows(n_rows, n_threads, [&](int64_t begin, int64_t end) {
        LeafTotals mine(n_leaves);
        with_simd<Simd::avx2>(static_cast<Simd>(simd),
                              [&] { add_rows(rows, leaf, begin, end, mine); });
        for (int64_t i = 0; i < n_leaves; ++i) {
          const TwoWords sum = mine.of_leaf(i);
          AtomicRef(sums[i].grad).add(static_cast<int64_t>(sum[0]));
          AtomicRef(sums[i].hess).add(static_cast<int64_t>(sum[1]));
        }
      });
    });
  }
  return to_records(sums);
}

// -soft(G) / (H + lambda) * learning rate, 0 where a leaf has no curvature; and H itself.
nb::tuple leaf_values(const Records<GradientSums>& sums, double grad_unit, double hess_unit,
                      double reg_alpha, double reg_lambda, double learning_rate) {
  std::vector<double> values, hessians;
  for (const GradientSums& leaf : sums.items) {
    const double grad = static_cast<double>(leaf.grad) * grad_unit;
    const double hess = static_cast<double>(leaf.hess) * hess_unit;
    const double curvature = hess + reg_lambda;
    const double size = curvature > 0.0 ? -soften(grad, reg_alpha) / curvature : 0.0;
    values.push_back(size * learning_rate + 0.0);  // + 0.0: a zero leaf is +0, never -0
    hessians.push_back(hess);
  }
  return nb::make_tuple(to_records(values), to_records(hessians));
}

void residual_keys(const Vector<const double>& scores, const LabelArray& label,
                   const Vector<uint32_t>& keys, int n_threads, int simd_level) {
  const int64_t n_rows = scores.shape(0);
  require(label.shape(0) == scores.shape(0) && keys.shape(0) == scores.shape(0),
          "scores, label and keys differ in length");
  const Labels labels(label);
  const auto simd = static_cast<Simd>(simd_level);
  WithoutGil released;
  parallel_rows(n_rows, n_threads, [&](int64_t begin, int64_t end) {
    double room[PIECE];
    for (int64_t first = begin; first < end; first += PIECE) {
      const int64_t n = std::min(PIECE, end - first);
      const double *score = scores.data() + first, *wanted = labels.read(first, n, room, simd);
      uint32_t* key = keys.data() + first;
      with_simd<Simd::avx2>(simd, [=] {
        for (int64_t i = 0; i < n; ++i) key[i] = ordered_key(wanted[i] - score[i]);
      });
    }
  });
}

void leaf_digits(const LeafNumbers& leaf_of, int64_t n_leaves, const Vector<const uint32_t>& keys,
                 const Optional<const int64_t>& weights, const Vector<const uint32_t>& prefixes,
                 int shift, const Matrix<int64_t>& counts, int n_threads) {
  const int64_t n_rows = keys.shape(0);
  require(static_cast<int64_t>(leaf_of.shape(0)) == n_rows &&
              (!weights || weights->shape(0) == keys.shape(0)),
          "leaf_of, keys and weights differ in length");
  require(static_cast<int64_t>(prefixes.shape(0)) == n_leaves &&
              static_cast<int64_t>(counts.shape(0)) == n_leaves && counts.shape(1) == N_DIGITS,
          "prefixes or counts do not fit the leaves");
  require(shift == 0 || shift == 8 || shift == 16 || shift == 24, "a digit has 8 bits");
  const uint32_t* key = keys.data();
  const int64_t* weight = weights ? weights->data() : nullptr;
  int64_t* total = counts.data();
  // Rows in no leaf have a prefix that no key has.
  std::vector<uint64_t> prefix(prefixes.data(), prefixes.data() + n_leaves);
  prefix.push_back(~uint64_t{0});
  std::fill_n(total, n_leaves * N_DIGITS, 0);
  WithoutGil released;
  visit_leaves(leaf_of, [&](auto* leaf) {
    parts_of_rows(n_rows, n_threads, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> mine(n_leaves * N_DIGITS);
      for (int64_t i = begin; i < end; ++i) {
        const uint64_t k = key[i];
        if (k >> (shift + 8) == prefix[leaf[i]])
          mine[leaf[i] * N_DIGITS + (k >> shift & (N_DIGITS - 1))] += weight ? weight[i] : 1;
      }
      for (int64_t i = 0; i < n_leaves * N_DIGITS; ++i)
        if (mine[i]) AtomicRef(total[i]).add(mine[i]);
    });
  });
}

void next_keys(const LeafNumbers& leaf_of, int64_t n_leaves, const Vector<const uint32_t>& keys,
               const Vector<const uint32_t>& lower, const Vector<uint32_t>& found, int n_threads) {
  const int64_t n_rows = keys.shape(0);
  require(static_cast<int64_t>(leaf_of.shape(0)) == n_rows, "leaf_of and keys differ in length");
  require(static_cast<int64_t>(lower.shape(0)) == n_leaves && lower.shape(0) == found.shape(0),
          "one key per leaf is needed");
  const uint32_t* key = keys.data();
  uint32_t* least = found.data();
  std::vector<uint32_t> low(lower.data(), lower.data() + n_leaves);
  low.push_back(~0u);  // rows in no leaf: no key is above it
  std::fill_n(least, n_leaves, ~0u);
  WithoutGil released;
  visit_leaves(leaf_of, [&](auto* leaf) {
    parts_of_rows(n_rows, n_threads, [&](int64_t begin, int64_t end) {
      std::vector<uint32_t> mine(n_leaves + 1, ~0u);
      for (int64_t i = begin; i < end; ++i) {
        uint32_t& best = mine[leaf[i]];
        if (key[i] > low[leaf[i]] && key[i] < best) best = key[i];
      }
      for (int64_t i = 0; i < n_leaves; ++i) {
        const AtomicRef shared(least[i]);
        uint32_t seen = shared.load();
        while (mine[i] < seen && !shared.exchange(seen, mine[i])) {
        }
      }
    });
  });
}

void add_leaf_values(const Vector<double>& scores, const LeafNumbers& leaf_of, int64_t n_leaves,
                     const Vector<const double>& values, int n_threads, int simd) {
  const int64_t n_rows = scores.shape(0);
  require(static_cast<int64_t>(values.shape(0)) == n_leaves, "one value per leaf is needed");
  require(static_cast<int64_t>(leaf_of.shape(0)) == n_rows, "scores and leaf_of differ in length");
  std::vector<double> of_leaf(values.data(), values.data() + values.shape(0));
  of_leaf.push_back(-0.0);  // what a row in no leaf gets: x + -0.0 is x, also for -0.0
  const double* value = of_leaf.data();
  double* score = scores.data();
  WithoutGil released;
  visit_leaves(leaf_of, [&](auto* leaf) {
    parallel_rows(n_rows, n_threads, [&](int64_t begin, int64_t end) {
      with_simd<Simd::avx2>(static_cast<Simd>(simd), [&] {
        for (int64_t i = begin; i < end; ++i) score[i] += value[leaf[i]];
      });
    });
  });
}

}  // namespace

void init_leaves(nb::module_& m) {
  m.def("locate_leaves", &locate_leaves, "rows"_a, "begins"_a, "ends"_a, "leaf_of"_a, "n_threads"_a,
        "simd"_a, "Writes the number of each row's leaf; n_leaves for a row in none.");
  m.def("leaf_sums", &leaf_sums, "leaf_of"_a, "n_leaves"_a, "grad"_a, "hess"_a.none(),
        "grad_unit"_a, "hess_unit"_a, "n_threads"_a, "simd"_a,
        "Fixed-point GradientSums of each leaf; without hess every row counts one.");
  m.def("leaf_values", &leaf_values, "sums"_a, "grad_unit"_a, "hess_unit"_a, "reg_alpha"_a,
        "reg_lambda"_a, "learning_rate"_a, "The value and the hessian of each leaf.");
  m.def("residual_keys", &residual_keys, "scores"_a, "label"_a, "keys"_a, "n_threads"_a, "simd"_a,
        "float32(label - score) of each row, as keys of the same order.");
  m.def("leaf_digits", &leaf_digits, "leaf_of"_a, "n_leaves"_a, "keys"_a, "weights"_a.none(),
        "prefixes"_a, "shift"_a, "counts"_a, "n_threads"_a,
        "The weight of each next digit (8 bits) of the keys that begin with the leaf's prefix.");
  m.def("next_keys", &next_keys, "leaf_of"_a, "n_leaves"_a, "keys"_a, "lower"_a, "found"_a,
        "n_threads"_a, "The least key of each leaf's rows above `lower`.");
  m.def("add_leaf_values", &add_leaf_values, "scores"_a, "leaf_of"_a, "n_leaves"_a, "values"_a,
        "n_threads"_a, "simd"_a, "Adds the value of its leaf to each row's score.");
}

}  // namespace bitgrove
