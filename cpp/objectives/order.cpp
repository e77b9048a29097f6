// The order of all rows by their predictions: steps of equal ones, and the sums of the areas under
// the ROC and precision-recall curves. Weights are whole numbers whose sum is below 2^61.
#include <cmath>
#include <memory>
#include <vector>

#include "bindings/gil.h"
#include "bindings/numpy_arrays.h"
#include "bindings/rooms.h"
#include "common/key_order.h"
#include "common/whole128.h"
#include "metrics.h"

namespace bitgrove {
namespace {

struct Weights {
  int64_t positive = 0, negative = 0;
};

// The steps of one range of keys.
struct Range {
  const KeyRow* steps = nullptr;
  int64_t n_steps = 0;
  Weights total;
};

using Values = GivenArray<nb::ndim<1>, nb::ro>;  // predictions, or their keys

// Values with the whole weights of both classes.
struct Rows {
  const uint64_t* bits;
  bool are_keys;
  const int64_t *positive, *negative;
  int64_t n;

  Rows(const Values& v, const Vector<const int64_t>& p, const Vector<const int64_t>& m)
      : bits(static_cast<const uint64_t*>(v.data())),
        are_keys(v.dtype() == nb::dtype<uint64_t>()),
        positive(p.data()),
        negative(m.data()),
        n(v.shape(0)) {
    require(are_keys || v.dtype() == nb::dtype<double>(), "values are float64 or uint64");
    require(p.shape(0) == v.shape(0) && m.shape(0) == v.shape(0), "weights differ in length");
  }
  uint64_t operator()(int64_t i) const {
    return are_keys ? bits[i] : ordered_key64(double_of_bits(static_cast<int64_t>(bits[i])));
  }
};

// A step takes the place of a row that was read: its `key` is the weight of the positives, its
// `row` that of the negatives.
Range steps_of(KeyRow* sorted, int64_t n, const Rows& rows) {
  Range range{sorted, 0, {}};
  uint64_t last = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto [key, row] = sorted[i];
    if (i == 0 || key != last) sorted[range.n_steps++] = {0, 0};
    last = key;
    KeyRow& step = sorted[range.n_steps - 1];
    step.key += rows.positive[row];
    step.row += rows.negative[row];
    range.total.positive += rows.positive[row];
    range.total.negative += rows.negative[row];
  }
  return range;
}

nb::tuple order_steps(const Values& values, const Vector<const int64_t>& positive,
                      const Vector<const int64_t>& negative, int n_threads) {
  const Rows rows(values, positive, negative);
  std::vector<std::vector<uint64_t>> keys_of(ranges_for(rows.n));
  std::vector<Range> ranges(keys_of.size());
  std::unique_ptr<KeyRow[]> memory;
  {
    WithoutGil released;
    memory = sort_by_key(rows.n, n_threads, rows, [&](int64_t r, KeyRow* sorted, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        if (i == 0 || sorted[i].key != sorted[i - 1].key) keys_of[r].push_back(sorted[i].key);
      ranges[r] = steps_of(sorted, n, rows);
    });
  }
  std::vector<uint64_t> keys;
  std::vector<int64_t> of_positive, of_negative;
  for (size_t r = 0; r < ranges.size(); ++r) {
    keys.insert(keys.end(), keys_of[r].begin(), keys_of[r].end());
    for (int64_t s = 0; s < ranges[r].n_steps; ++s) {
      of_positive.push_back(static_cast<int64_t>(ranges[r].steps[s].key));
      of_negative.push_back(static_cast<int64_t>(ranges[r].steps[s].row));
    }
  }
  const size_t n = keys.size();
  return nb::make_tuple(to_numpy(std::move(keys), {n}), to_numpy(std::move(of_positive), {n}),
                        to_numpy(std::move(of_negative), {n}));
}

struct StepSums {
  Whole128 area;
  int64_t precision = 0;
};

// What lies below and above the steps is given.
StepSums sums_of(const Range& range, int64_t negative_below, Weights above) {
  StepSums sums;
  auto below = static_cast<uint64_t>(negative_below);
  for (int64_t s = 0; s < range.n_steps; ++s) {
    const auto [positive, negative] = range.steps[s];
    sums.area += product(positive, 2 * below + negative);
    below += negative;
  }
  for (int64_t s = range.n_steps - 1; s >= 0; --s) {
    const auto positive = static_cast<int64_t>(range.steps[s].key);
    above.positive += positive;
    above.negative += static_cast<int64_t>(range.steps[s].row);
    const int64_t seen = std::max<int64_t>(above.positive + above.negative, 1);
    const double precision = static_cast<double>(above.positive) / static_cast<double>(seen);
    sums.precision += std::llrint(static_cast<double>(positive) * precision);
  }
  return sums;
}

// N_ORDER_SUMS numbers; the weights around the values are those of other ranks.
void order_sums(const Values& values, const Vector<const int64_t>& positive,
                const Vector<const int64_t>& negative, int64_t negative_below,
                std::pair<int64_t, int64_t> above, const Vector<int64_t>& sums, int n_threads) {
  require(sums.shape(0) == N_ORDER_SUMS, "sums has another length");
  const Rows rows(values, positive, negative);
  WithoutGil released;
  const int64_t n_ranges = ranges_for(rows.n);
  std::vector<Range> ranges(n_ranges);
  const auto memory = sort_by_key(
      rows.n, n_threads, rows,
      [&](int64_t r, KeyRow* sorted, int64_t n) { ranges[r] = steps_of(sorted, n, rows); });
  std::vector<int64_t> below{negative_below};
  for (const Range& range : ranges) below.push_back(below.back() + range.total.negative);
  std::vector<Weights> higher(n_ranges + 1);
  higher[n_ranges] = {above.first, above.second};
  for (int64_t r = n_ranges - 1; r >= 0; --r)
    higher[r] = {higher[r + 1].positive + ranges[r].total.positive,
                 higher[r + 1].negative + ranges[r].total.negative};
  std::vector<StepSums> found(n_ranges);
  parallel_tasks(n_ranges, threads_for_rows(rows.n, n_threads),
                 [&](int64_t r) { found[r] = sums_of(ranges[r], below[r], higher[r + 1]); });
  StepSums total;
  for (const StepSums& part : found) {
    total.area += part.area;
    total.precision += part.precision;
  }
  int64_t* out = sums.data();
  out[0] = higher[0].positive - above.first;
  out[1] = higher[0].negative - above.second;
  for (int digit = 0; digit < 4; ++digit)
    out[2 + digit] = static_cast<int64_t>(total.area.digit(digit));
  out[6] = total.precision;
}

}  // namespace

void init_order(nb::module_& m) {
  m.attr("N_ORDER_SUMS") = N_ORDER_SUMS;
  m.attr("SORT_ROWS") = SORT_ROWS;
  m.def("order_steps", &order_steps, "values"_a, "positive"_a, "negative"_a, "n_threads"_a,
        "(keys, positive, negative): weights of both classes at each distinct value, ascending. "
        "values: predictions, or keys.");
  m.def("order_sums", &order_sums, "values"_a, "positive"_a, "negative"_a, "negative_below"_a,
        "above"_a, "sums"_a, "n_threads"_a,
        "Writes the weights of both classes, four digits of the area and the precisions, given the "
        "negatives below all values and the (positives, negatives) above them.");
}

}  // namespace bitgrove
