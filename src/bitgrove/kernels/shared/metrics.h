// What metrics add up: a term of each row, a cell of each row, a value of each query.
//
// One struct for each, compiled by g++ and NVRTC; the lists name them as a metric's class does in
// `kernel`. The NumPy twins are `term` and `terms` of the classes in objectives/metrics: the same
// operations in the same order.
#pragma once

#include "math.h"

namespace bitgrove {

// Sums of whole weights over the order of all rows (objectives/metrics/order.py): of positives and
// negatives, four digits of 32 bits of the area, and the precisions.
constexpr int N_ORDER_SUMS = 7;
// Rows of a tile when a GPU sorts all rows.
constexpr int SORT_ROWS = 2048;

BG_FN double at_least(double x, double least) { return x < least ? least : x; }
BG_FN double square(double x) { return x * x; }
BG_FN double distance(double a, double b) { return a < b ? b - a : a - b; }

// Rounded to even; |x| is below 2^51.
BG_FN int64_t nearest_whole(double x) {
  return bits_of_double(x + ROUNDING_SHIFT) - bits_of_double(ROUNDING_SHIFT);
}

BG_FN double power_of_two(int64_t exponent) { return double_of_bits((exponent + 1023) << 52); }

// value * 2^exponent in two exact steps, as to_units of fixed_point.py.
struct Unit {
  double first, second;
  explicit BG_FN Unit(int64_t exponent)
      : first(power_of_two(exponent >> 1)), second(power_of_two(exponent - (exponent >> 1))) {}
  BG_FN int64_t of(double value) const { return nearest_whole((value * first) * second); }
};

// Bits of doubles that are not negative order as they do.
BG_FN uint64_t magnitude_of_bits(double value) {
  return static_cast<uint64_t>(bits_of_double(value)) & 0x7FFFFFFFFFFFFFFFull;
}

// Unsigned bits in the order of the numbers; -0 is 0.
BG_FN uint64_t ordered_key64(double value) {
  const uint64_t bits = static_cast<uint64_t>(bits_of_double(value + 0.0));
  return bits ^ (bits >> 63 ? 0xFFFFFFFFFFFFFFFFull : 0x8000000000000000ull);
}

// ---------------------------------------------------------------- terms of one output
// term() of a prediction, a label and the metric's setting.

// Predictions below it count as it where a logarithm is taken.
constexpr double LEAST_MEAN = 1e-10, TINY_PROBABILITY = 1e-15;

// -log of the probability that the true class was given.
BG_FN double surprise(double probability) {
  const double p = at_least(probability, TINY_PROBABILITY);
  return -exact_log(p > 1.0 ? 1.0 : p);
}

struct SquaredTerm {
  static BG_FN double term(double p, double y, double) { return square(p - y); }
};

struct SquaredLogTerm {
  static BG_FN double term(double p, double y, double) {
    return square(exact_log(1.0 + at_least(p, 0.0)) - exact_log(1.0 + at_least(y, 0.0)));
  }
};

struct AbsoluteTerm {
  static BG_FN double term(double p, double y, double) { return distance(p, y); }
};

struct RelativeTerm {
  static BG_FN double term(double p, double y, double) {
    return distance(p, y) / at_least(distance(y, 0.0), 1.0);
  }
};

struct PoissonTerm {
  static BG_FN double term(double p, double y, double) {
    const double mean = at_least(p, LEAST_MEAN);
    return mean - y * exact_log(mean);
  }
};

struct GammaTerm {
  static BG_FN double term(double p, double y, double) {
    const double mean = at_least(p, LEAST_MEAN);
    return y / mean + exact_log(mean);
  }
};

struct PoissonDevianceTerm {
  static BG_FN double term(double p, double y, double) {
    const double mean = at_least(p, LEAST_MEAN), log = exact_log((y > 0.0 ? y : 1.0) / mean);
    return 2.0 * ((y > 0.0 ? y * log : 0.0) - (y - mean));
  }
};

struct GammaDevianceTerm {
  static BG_FN double term(double p, double y, double) {
    const double ratio = at_least(y, LEAST_MEAN) / at_least(p, LEAST_MEAN);
    return 2.0 * ((ratio - 1.0) - exact_log(ratio));
  }
};

// setting: the quantile's level
struct PinballTerm {
  static BG_FN double term(double p, double y, double setting) {
    const double gap = y - p;
    return gap >= 0.0 ? setting * gap : (setting - 1.0) * gap;
  }
};

// setting: the expectile's level
struct ExpectileTerm {
  static BG_FN double term(double p, double y, double setting) {
    const double gap = p - y;
    return (gap >= 0.0 ? 1.0 - setting : setting) * square(gap);
  }
};

// setting: where the square ends and the line begins
struct HuberTerm {
  static BG_FN double term(double p, double y, double setting) {
    const double size = distance(p, y);
    return size <= setting ? 0.5 * size * size : setting * (size - 0.5 * setting);
  }
};

// setting: c
struct FairTerm {
  static BG_FN double term(double p, double y, double setting) {
    const double ratio = distance(p, y) / setting;
    return (setting * setting) * (ratio - exact_log(1.0 + ratio));
  }
};

// setting: the power of the variance
struct TweedieTerm {
  static BG_FN double term(double p, double y, double setting) {
    const double log = exact_log(at_least(p, LEAST_MEAN));
    const double first = 1.0 - setting, second = 2.0 - setting;
    return exact_exp(second * log) / second - (y * exact_exp(first * log)) / first;
  }
};

// setting: as TweedieTerm
struct TweedieDevianceTerm {
  static BG_FN double term(double p, double y, double setting) {
    const double log = exact_log(at_least(p, LEAST_MEAN));
    const double first = 1.0 - setting, second = 2.0 - setting;
    const double of_label = exact_exp(second * exact_log(at_least(y, LEAST_MEAN)));
    const double own = y > 0.0 ? of_label / (first * second) : 0.0;
    const double away = (y * exact_exp(first * log)) / first;
    return 2.0 * ((own - away) + exact_exp(second * log) / second);
  }
};

struct LoglossTerm {
  static BG_FN double term(double p, double y, double) { return surprise(y > 0.0 ? p : 1.0 - p); }
};

struct CrossEntropyTerm {
  static BG_FN double term(double p, double y, double) {
    return y * surprise(p) + (1.0 - y) * surprise(1.0 - p);
  }
};

struct WrongTerm {
  static BG_FN double term(double p, double y, double) {
    return (p > 0.5) != (y > 0.0) ? 1.0 : 0.0;
  }
};

struct RightTerm {
  static BG_FN double term(double p, double y, double) {
    return (p > 0.5) == (y > 0.0) ? 1.0 : 0.0;
  }
};

#define BG_OUTPUT_TERMS(X)                 \
  X(squared, SquaredTerm)                  \
  X(squared_log, SquaredLogTerm)           \
  X(absolute, AbsoluteTerm)                \
  X(relative, RelativeTerm)                \
  X(poisson, PoissonTerm)                  \
  X(gamma, GammaTerm)                      \
  X(poisson_deviance, PoissonDevianceTerm) \
  X(gamma_deviance, GammaDevianceTerm)     \
  X(pinball, PinballTerm)                  \
  X(expectile, ExpectileTerm)              \
  X(huber, HuberTerm)                      \
  X(fair, FairTerm)                        \
  X(tweedie, TweedieTerm)                  \
  X(tweedie_deviance, TweedieDevianceTerm) \
  X(logloss, LoglossTerm)                  \
  X(cross_entropy, CrossEntropyTerm)       \
  X(wrong, WrongTerm)                      \
  X(right, RightTerm)

// ---------------------------------------------------------------- terms of a row
// A row's predictions (one after the other), and its labels: one each (label_step 1) or one for
// all (0). Only the outputs [first, last) are judged.
struct JudgedRow {
  const double *prediction, *label, *setting;  // one setting for each output
  int64_t label_step, first, last;
};

// The rows of a set; predictions are (n_rows, n_outputs), labels (n_rows, n_labels).
struct JudgedRows {
  const double *prediction, *label, *setting;
  int64_t n_outputs, n_labels, first, last;
  BG_FN JudgedRow operator[](int64_t i) const {
    return {prediction + i * n_outputs,
            label + i * n_labels,
            setting,
            n_labels > 1 ? 1 : 0,
            first,
            last};
  }
};

// The mean of the outputs' terms, added in their order.
template <class Term>
struct MeanOfOutputs {
  static BG_FN double term(const JudgedRow& row) {
    double total = 0.0;
    for (int64_t k = row.first; k < row.last; ++k) {
      const double term =
          Term::term(row.prediction[k], row.label[k * row.label_step], row.setting[k]);
      total = k == row.first ? term : total + term;
    }
    return total / static_cast<double>(row.last - row.first);
  }
};

// The first of the classes that are given the largest probability.
BG_FN int64_t likeliest_class(const double* probability, int64_t n_classes) {
  int64_t best = 0;
  for (int64_t k = 1; k < n_classes; ++k) best = probability[k] > probability[best] ? k : best;
  return best;
}

struct ClassSurpriseTerm {
  static BG_FN double term(const JudgedRow& row) {
    return surprise(row.prediction[static_cast<int64_t>(row.label[0])]);
  }
};

struct WrongClassTerm {
  static BG_FN double term(const JudgedRow& row) {
    const int64_t found = likeliest_class(row.prediction, row.last);
    return static_cast<double>(found) != row.label[0] ? 1.0 : 0.0;
  }
};

struct RightClassTerm {
  static BG_FN double term(const JudgedRow& row) { return 1.0 - WrongClassTerm::term(row); }
};

// Whether all outputs, no or yes each, are right.
struct AllRightTerm {
  static BG_FN double term(const JudgedRow& row) {
    bool right = true;
    for (int64_t k = row.first; k < row.last; ++k)
      right = right && (row.prediction[k] > 0.5) == (row.label[k * row.label_step] > 0.0);
    return right ? 1.0 : 0.0;
  }
};

#define BG_ROW_TERMS(X)                \
  X(class_surprise, ClassSurpriseTerm) \
  X(wrong_class, WrongClassTerm)       \
  X(right_class, RightClassTerm)       \
  X(all_right, AllRightTerm)

// ---------------------------------------------------------------- cells
// The number of a row's pair (true class, predicted class): of one output, whose classes are no and
// yes, or of all classes.
BG_FN int64_t cell_of(const JudgedRow& row) {
  if (row.last - row.first == 1) {
    const bool truth = row.label[row.first * row.label_step] > 0.0;
    return 2 * truth + (row.prediction[row.first] > 0.5);
  }
  return row.last * static_cast<int64_t>(row.label[0]) + likeliest_class(row.prediction, row.last);
}

// ---------------------------------------------------------------- values of a query
// Told the relevance of its rows from the top rank down, as far as rank k; `best` is the largest
// that the metric's class found possible.

struct NdcgOfQuery {
  double found = 0.0;
  BG_FN void add(int64_t rank, double relevance, const double* discount) {
    found = found + relevance * discount[rank];
  }
  BG_FN double value(double best, int64_t) const { return best > 0.0 ? found / best : 1.0; }
};

struct MapOfQuery {
  double found = 0.0, n_hits = 0.0;
  BG_FN void add(int64_t rank, double relevance, const double*) {
    if (!(relevance > 0.0)) return;
    n_hits = n_hits + 1.0;
    found = found + n_hits / (static_cast<double>(rank) + 1.0);
  }
  BG_FN double value(double best, int64_t) const { return best > 0.0 ? found / best : 1.0; }
};

struct PrecisionOfQuery {
  double n_hits = 0.0;
  BG_FN void add(int64_t, double relevance, const double*) {
    n_hits = n_hits + (relevance > 0.0 ? 1.0 : 0.0);
  }
  BG_FN double value(double, int64_t k) const { return n_hits / static_cast<double>(k); }
};

struct MrrOfQuery {
  double found = 0.0;
  BG_FN void add(int64_t rank, double relevance, const double*) {
    if (relevance > 0.0 && found == 0.0) found = 1.0 / (static_cast<double>(rank) + 1.0);
  }
  BG_FN double value(double, int64_t) const { return found; }
};

#define BG_QUERY_VALUES(X)       \
  X(ndcg, NdcgOfQuery)           \
  X(map, MapOfQuery)             \
  X(precision, PrecisionOfQuery) \
  X(mrr, MrrOfQuery)

}  // namespace bitgrove
