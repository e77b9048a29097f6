// The order of all rows by their predictions: steps of equal ones, and the sums of the areas under
// the ROC and precision-recall curves. Weights are whole numbers whose sum is below 2^61.
#include <cmath>
#include <numeric>
#include <vector>

#include "bindings/numpy_arrays.h"
#include "bindings/rooms.h"
#include "common/key_order.h"
#include "metrics.h"

namespace bitgrove {
namespace {

using Whole128 = unsigned __int128;

struct StepWeights {
  int64_t positive = 0, negative = 0;
};

// keys of each step, ascending, and the weights of both classes.
nb::tuple steps_of(KeyOrder order, const int64_t* positive, const int64_t* negative,
                   int n_threads) {
  const auto n_ranges = static_cast<int64_t>(order.range.size()) - 1;
  std::vector<int64_t> first(n_ranges + 1);
  const KeyRow* rows = order.rows.get();
  const auto begins_step = [&](int64_t i, int64_t begin) {
    return i == begin || rows[i].key != rows[i - 1].key;
  };
  parallel_tasks(n_ranges, n_threads, [&](int64_t r) {
    for (int64_t i = order.range[r]; i < order.range[r + 1]; ++i)
      first[r + 1] += begins_step(i, order.range[r]);
  });
  std::partial_sum(first.begin(), first.end(), first.begin());
  const auto n_steps = static_cast<size_t>(first[n_ranges]);
  std::vector<uint64_t> keys(n_steps);
  std::vector<int64_t> of_positive(n_steps), of_negative(n_steps);
  parallel_tasks(n_ranges, n_threads, [&](int64_t r) {
    int64_t step = first[r] - 1;
    for (int64_t i = order.range[r]; i < order.range[r + 1]; ++i) {
      step += begins_step(i, order.range[r]);
      keys[step] = rows[i].key;
      of_positive[step] += positive[rows[i].row];
      of_negative[step] += negative[rows[i].row];
    }
  });
  nb::gil_scoped_acquire acquire;
  return nb::make_tuple(to_numpy(std::move(keys), {n_steps}),
                        to_numpy(std::move(of_positive), {n_steps}),
                        to_numpy(std::move(of_negative), {n_steps}));
}

template <class Value, class KeyOf>
nb::tuple order_steps(Vector<const Value> values, Vector<const int64_t> positive,
                      Vector<const int64_t> negative, int n_threads, KeyOf key_of) {
  const size_t n = values.shape(0);
  require(positive.shape(0) == n && negative.shape(0) == n, "weights differ in length");
  require(n < (uint64_t{1} << 32), "too many rows");
  const Value* data = values.data();
  nb::gil_scoped_release release;
  return steps_of(
      sort_by_key(static_cast<int64_t>(n), n_threads, [=](int64_t i) { return key_of(data[i]); }),
      positive.data(), negative.data(), threads_for_rows(n, n_threads));
}

nb::tuple steps_of_predictions(Vector<const double> predictions, Vector<const int64_t> positive,
                               Vector<const int64_t> negative, int n_threads) {
  return order_steps(predictions, positive, negative, n_threads,
                     [](double x) { return ordered_key64(x); });
}

nb::tuple steps_of_keys(Vector<const uint64_t> keys, Vector<const int64_t> positive,
                        Vector<const int64_t> negative, int n_threads) {
  return order_steps(keys, positive, negative, n_threads, [](uint64_t x) { return x; });
}

struct StepSums {
  Whole128 area = 0;
  int64_t precision = 0;
};

// Of the steps [begin, end): what lies below and above them is given.
StepSums sums_of(const int64_t* positive, const int64_t* negative, int64_t begin, int64_t end,
                 StepWeights below, StepWeights above) {
  StepSums sums;
  for (int64_t i = begin; i < end; ++i) {
    const auto pairs = static_cast<uint64_t>(2 * below.negative + negative[i]);
    sums.area += static_cast<Whole128>(positive[i]) * pairs;
    below.negative += negative[i];
  }
  for (int64_t i = end - 1; i >= begin; --i) {
    above.positive += positive[i];
    above.negative += negative[i];
    const int64_t seen = std::max<int64_t>(above.positive + above.negative, 1);
    const double precision = static_cast<double>(above.positive) / static_cast<double>(seen);
    sums.precision += std::llrint(static_cast<double>(positive[i]) * precision);
  }
  return sums;
}

// N_ORDER_SUMS numbers of the steps of one range of keys.
void order_sums(Vector<const int64_t> positive, Vector<const int64_t> negative,
                int64_t negative_below, std::pair<int64_t, int64_t> above, Vector<int64_t> sums,
                int n_threads) {
  require(positive.shape(0) == negative.shape(0), "weights differ in length");
  require(sums.shape(0) == N_ORDER_SUMS, "sums has another length");
  const auto n = static_cast<int64_t>(positive.shape(0));
  const int64_t *of_positive = positive.data(), *of_negative = negative.data();
  const int64_t n_blocks = blocks_of(n, ROW_BLOCK);
  std::vector<StepWeights> weights(n_blocks + 1), higher(n_blocks + 1);
  std::vector<StepSums> found(n_blocks);
  {
    nb::gil_scoped_release release;
    parallel_rows(n, n_threads, [&](int64_t begin, int64_t end) {
      StepWeights& mine = weights[begin / ROW_BLOCK];
      mine.positive = std::accumulate(of_positive + begin, of_positive + end, int64_t{0});
      mine.negative = std::accumulate(of_negative + begin, of_negative + end, int64_t{0});
    });
    std::vector<StepWeights> lower(n_blocks);
    int64_t below = negative_below;
    for (int64_t b = 0; b < n_blocks; ++b) {
      lower[b].negative = below;
      below += weights[b].negative;
    }
    higher[n_blocks] = {above.first, above.second};
    for (int64_t b = n_blocks - 1; b >= 0; --b)
      higher[b] = {higher[b + 1].positive + weights[b].positive,
                   higher[b + 1].negative + weights[b].negative};
    parallel_rows(n, n_threads, [&](int64_t begin, int64_t end) {
      const int64_t b = begin / ROW_BLOCK;
      found[b] = sums_of(of_positive, of_negative, begin, end, lower[b], higher[b + 1]);
    });
  }
  StepSums total;
  for (const StepSums& part : found) {
    total.area += part.area;
    total.precision += part.precision;
  }
  int64_t* out = sums.data();
  out[0] = higher[0].positive - above.first;
  out[1] = higher[0].negative - above.second;
  for (int digit = 0; digit < 4; ++digit)
    out[2 + digit] = static_cast<int64_t>(static_cast<uint32_t>(total.area >> (32 * digit)));
  out[6] = total.precision;
}

}  // namespace

void init_order(nb::module_& m) {
  m.attr("N_ORDER_SUMS") = N_ORDER_SUMS;
  m.attr("SORT_ROWS") = SORT_ROWS;
  const char* doc =
      "(keys, positive, negative): weights of both classes at each distinct value, ascending.";
  m.def("order_steps", &steps_of_predictions, "values"_a, "positive"_a, "negative"_a, "n_threads"_a,
        doc);
  m.def("order_steps", &steps_of_keys, "values"_a, "positive"_a, "negative"_a, "n_threads"_a, doc);
  m.def("order_sums", &order_sums, "positive"_a, "negative"_a, "negative_below"_a, "above"_a,
        "sums"_a, "n_threads"_a,
        "Writes the weights of both classes, four digits of the area and the precisions of steps, "
        "given the negatives below them and the (positives, negatives) above them.");
}

}  // namespace bitgrove
