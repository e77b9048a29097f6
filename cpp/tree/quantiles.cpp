// Quantiles of the residuals of a leaf's rows: keys of their order, and the weight of each digit.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "bindings/numpy_arrays.h"
#include "bindings/rooms.h"
#include "common/parallel.h"
#include "math.h"
#include "tree/leaves.h"

namespace bitgrove {
namespace {

constexpr int64_t N_DIGITS = 256, TASKS_PER_THREAD = 4;

void residual_keys(Vector<const double> scores, Vector<const double> label, Vector<uint32_t> keys,
                   int n_threads, int simd) {
  const int64_t n_rows = scores.shape(0);
  require(label.shape(0) == scores.shape(0) && keys.shape(0) == scores.shape(0),
          "scores, label and keys differ in length");
  const double *score = scores.data(), *wanted = label.data();
  uint32_t* key = keys.data();
  nb::gil_scoped_release release;
  parallel_rows(n_rows, n_threads, [&](int64_t begin, int64_t end) {
    with_simd(static_cast<Simd>(simd), [&] {
      for (int64_t i = begin; i < end; ++i) key[i] = ordered_key(wanted[i] - score[i]);
    });
  });
}

// Runs body(begin, end) on parts of the rows: few, because each makes counts for all leaves.
template <class Body>
void parts_of_rows(int64_t n_rows, int n_threads, Body&& body) {
  n_threads = threads_for_rows(n_rows, n_threads);
  const int64_t n_tasks =
      n_threads == 1 ? 1 : std::min(TASKS_PER_THREAD * n_threads, blocks_of(n_rows, ROW_BLOCK));
  parallel_tasks(n_tasks, n_threads, [&](int64_t task) {
    body(n_rows * task / n_tasks, n_rows * (task + 1) / n_tasks);
  });
}

void leaf_digits(LeafNumbers leaf_of, int64_t n_leaves, Vector<const uint32_t> keys,
                 Optional<const int64_t> weights, Vector<const uint32_t> prefixes, int shift,
                 Matrix<int64_t> counts, int n_threads) {
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
  nb::gil_scoped_release release;
  visit_leaves(leaf_of, [&](auto* leaf) {
    parts_of_rows(n_rows, n_threads, [&](int64_t begin, int64_t end) {
      std::vector<int64_t> mine(n_leaves * N_DIGITS);
      for (int64_t i = begin; i < end; ++i) {
        const uint64_t k = key[i];
        if (k >> (shift + 8) == prefix[leaf[i]])
          mine[leaf[i] * N_DIGITS + (k >> shift & (N_DIGITS - 1))] += weight ? weight[i] : 1;
      }
      for (int64_t i = 0; i < n_leaves * N_DIGITS; ++i)
        if (mine[i]) std::atomic_ref(total[i]).fetch_add(mine[i], std::memory_order_relaxed);
    });
  });
}

void next_keys(LeafNumbers leaf_of, int64_t n_leaves, Vector<const uint32_t> keys,
               Vector<const uint32_t> lower, Vector<uint32_t> found, int n_threads) {
  const int64_t n_rows = keys.shape(0);
  require(static_cast<int64_t>(leaf_of.shape(0)) == n_rows, "leaf_of and keys differ in length");
  require(static_cast<int64_t>(lower.shape(0)) == n_leaves && lower.shape(0) == found.shape(0),
          "one key per leaf is needed");
  const uint32_t* key = keys.data();
  uint32_t* least = found.data();
  std::vector<uint32_t> low(lower.data(), lower.data() + n_leaves);
  low.push_back(~0u);  // rows in no leaf: no key is above it
  std::fill_n(least, n_leaves, ~0u);
  nb::gil_scoped_release release;
  visit_leaves(leaf_of, [&](auto* leaf) {
    parts_of_rows(n_rows, n_threads, [&](int64_t begin, int64_t end) {
      std::vector<uint32_t> mine(n_leaves + 1, ~0u);
      for (int64_t i = begin; i < end; ++i) {
        uint32_t& best = mine[leaf[i]];
        if (key[i] > low[leaf[i]] && key[i] < best) best = key[i];
      }
      for (int64_t i = 0; i < n_leaves; ++i) {
        std::atomic_ref<uint32_t> shared(least[i]);
        uint32_t seen = shared.load(std::memory_order_relaxed);
        while (mine[i] < seen && !shared.compare_exchange_weak(seen, mine[i])) {
        }
      }
    });
  });
}

}  // namespace

void init_quantiles(nb::module_& m) {
  m.def("residual_keys", &residual_keys, "scores"_a, "label"_a, "keys"_a, "n_threads"_a, "simd"_a,
        "float32(label - score) of each row, as keys of the same order.");
  m.def("leaf_digits", &leaf_digits, "leaf_of"_a, "n_leaves"_a, "keys"_a, "weights"_a.none(),
        "prefixes"_a, "shift"_a, "counts"_a, "n_threads"_a,
        "The weight of each next digit (8 bits) of the keys that begin with the leaf's prefix.");
  m.def("next_keys", &next_keys, "leaf_of"_a, "n_leaves"_a, "keys"_a, "lower"_a, "found"_a,
        "n_threads"_a, "The least key of each leaf's rows above `lower`.");
}

}  // namespace bitgrove
