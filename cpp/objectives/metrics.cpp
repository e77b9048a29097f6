// Sums that metrics are made of: weighted terms of rows, weights of cells, values of queries.
#include "metrics.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <string_view>
#include <vector>

#include "bindings/gil.h"
#include "bindings/rooms.h"
#include "common/parallel.h"

namespace bitgrove {
namespace {

// Threads may raise the same maximum at once.
void raise_top(std::atomic<uint64_t>& top, uint64_t mine) {
  uint64_t seen = top.load(std::memory_order_relaxed);
  while (seen < mine && !top.compare_exchange_weak(seen, mine)) {
  }
}

uint64_t largest_magnitude(const double* values, int64_t n) {
  uint64_t top = 0;
  for (int64_t i = 0; i < n; ++i) top = std::max(top, magnitude_of_bits(values[i]));
  return top;
}

// Rows that are worked on together: always so many, so that no loop over them has a rest.
constexpr int64_t TERM_ROWS = 256;

// The terms of TERM_ROWS rows with one prediction and one label each.
using PlainTerms = void (*)(const double* prediction, const double* label, double setting,
                            double* out, Simd simd);
// Those of n rows with several.
using RowTerms = void (*)(const JudgedRows& rows, int64_t begin, int64_t n, double* out);

struct TermCall {
  JudgedRows rows;
  const double* weight;  // null: one everywhere
  double* out;
  int64_t n_rows;
  int n_threads;
  Simd simd;
};

template <class Term>
void plain_terms(const double* prediction, const double* label, double setting,
                 double* BG_RESTRICT out, Simd simd) {
  with_simd<Simd::avx2>(simd, [=] {
    for (int64_t i = 0; i < TERM_ROWS; ++i) out[i] = Term::term(prediction[i], label[i], setting);
  });
}

template <class Term>
void row_terms(const JudgedRows& rows, int64_t begin, int64_t n, double* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = Term::term(rows[begin + i]);
}

// Weighs the terms of n rows; returns the largest magnitude.
uint64_t weigh_terms(const double* weight, int64_t n, double* terms, Simd simd) {
  uint64_t top = 0;
  with_simd<Simd::avx2>(simd, [&, weight, n, terms] {
    if (weight)
      for (int64_t i = 0; i < n; ++i) terms[i] = terms[i] * weight[i];
    top = largest_magnitude(terms, n);
  });
  return top;
}

// The mean of the outputs' terms of n rows, added in their order: MeanOfOutputs of metrics.h,
// output by output.
void mean_terms(const TermCall& call, PlainTerms plain, int64_t begin, int64_t n, double* out) {
  alignas(64) double terms[TERM_ROWS], prediction[TERM_ROWS], label[TERM_ROWS];
  const auto [first, last] = std::pair(call.rows.first, call.rows.last);
  for (int64_t k = first; k < last; ++k) {
    for (int64_t i = 0; i < TERM_ROWS; ++i) {
      const JudgedRow row = call.rows[begin + std::min(i, n - 1)];  // the last fills what is left
      prediction[i] = row.prediction[k];
      label[i] = row.label[k * row.label_step];
    }
    plain(prediction, label, call.rows.setting[k], terms, call.simd);
    for (int64_t i = 0; i < n; ++i) out[i] = k == first ? terms[i] : out[i] + terms[i];
  }
  for (int64_t i = 0; i < n; ++i) out[i] = out[i] / static_cast<double>(last - first);
}

struct NamedTerm {
  const char* name;
  PlainTerms plain;  // of one output; null: a term is one of all outputs
  RowTerms of_rows;
};

uint64_t judge_rows(const TermCall& call, const NamedTerm& term, int64_t begin, int64_t end) {
  alignas(64) double terms[TERM_ROWS];
  uint64_t top = 0;
  for (int64_t first = begin; first < end; first += TERM_ROWS) {
    const int64_t n = std::min(TERM_ROWS, end - first);
    const JudgedRows& rows = call.rows;
    if (!term.plain)
      term.of_rows(rows, first, n, terms);
    else if (rows.n_outputs == 1 && n == TERM_ROWS)
      term.plain(rows.prediction + first, rows.label + first, rows.setting[0], terms, call.simd);
    else
      mean_terms(call, term.plain, first, n, terms);
    const double* weight = call.weight ? call.weight + first : nullptr;
    top = std::max(top, weigh_terms(weight, n, terms, call.simd));
    std::copy_n(terms, n, call.out + first);
  }
  return top;
}

#define OUTPUT_TERM(NAME, TERM) {#NAME, &plain_terms<TERM>, nullptr},
#define ROW_TERM(NAME, TERM) {#NAME, nullptr, &row_terms<TERM>},
constexpr NamedTerm TERMS[] = {BG_OUTPUT_TERMS(OUTPUT_TERM) BG_ROW_TERMS(ROW_TERM)};

template <class Named, size_t N>
const Named& find_named(const Named (&all)[N], std::string_view name) {
  const auto found =
      std::find_if(all, all + N, [&](const Named& other) { return name == other.name; });
  require(found != all + N, "kernels/shared/metrics.h lists no such metric");
  return *found;
}

JudgedRows judged_rows(const Matrix<const double>& prediction, const Matrix<const double>& label,
                       const double* setting, std::pair<int64_t, int64_t> outputs) {
  const auto n_outputs = static_cast<int64_t>(prediction.shape(1));
  const auto n_labels = static_cast<int64_t>(label.shape(1));
  require(prediction.shape(0) == label.shape(0), "prediction and label differ in length");
  require(n_labels == 1 || n_labels == n_outputs, "one label, or one for each output");
  require(0 <= outputs.first && outputs.first < outputs.second && outputs.second <= n_outputs,
          "no such outputs");
  return {prediction.data(), label.data(),  setting,       n_outputs,
          n_labels,          outputs.first, outputs.second};
}

double metric_terms(const char* kernel, const Matrix<const double>& prediction,
                    const Matrix<const double>& label, const Optional<const double>& weight,
                    const Vector<const double>& setting, std::pair<int64_t, int64_t> outputs,
                    const Vector<double>& out, int n_threads, int simd) {
  const auto rows = judged_rows(prediction, label, setting.data(), outputs);
  require(setting.shape(0) == prediction.shape(1), "one setting for each output");
  const size_t n_rows = prediction.shape(0);
  require(out.shape(0) == n_rows && (!weight || weight->shape(0) == n_rows),
          "weight or out differs in length");
  const NamedTerm& term = find_named(TERMS, kernel);
  const TermCall call{rows,       weight ? weight->data() : nullptr,
                      out.data(), static_cast<int64_t>(n_rows),
                      n_threads,  static_cast<Simd>(simd)};
  std::atomic<uint64_t> top{0};
  WithoutGil released;
  parallel_rows(call.n_rows, call.n_threads, [&](int64_t begin, int64_t end) {
    raise_top(top, judge_rows(call, term, begin, end));
  });
  return double_of_bits(static_cast<int64_t>(top.load()));
}

int64_t sum_in_units(const Vector<const double>& values, int64_t exponent, int n_threads,
                     int simd) {
  require(exponent >= -2000 && exponent <= 2000, "no such unit");
  const double* data = values.data();
  const Unit unit(exponent);
  std::atomic<int64_t> total{0};
  WithoutGil released;
  parallel_rows(values.shape(0), n_threads, [&](int64_t begin, int64_t end) {
    int64_t mine = 0;
    with_simd<Simd::avx2>(static_cast<Simd>(simd), [&, data, unit] {
      int64_t sum = 0;
      for (int64_t i = begin; i < end; ++i) sum += unit.of(data[i]);
      mine = sum;
    });
    total.fetch_add(mine, std::memory_order_relaxed);
  });
  return total;
}

// How much weight has each pair (true class, predicted class).
void cell_sums(const Matrix<const double>& prediction, const Matrix<const double>& label,
               const Vector<const int64_t>& whole, std::pair<int64_t, int64_t> outputs,
               const Vector<int64_t>& sums, int n_threads) {
  const auto rows = judged_rows(prediction, label, nullptr, outputs);
  require(whole.shape(0) == label.shape(0), "whole differs in length");
  const auto n_cells = static_cast<int64_t>(sums.shape(0));
  const int64_t* weight = whole.data();
  int64_t* total = sums.data();
  std::fill_n(total, n_cells, 0);
  WithoutGil released;
  parallel_rows(label.shape(0), n_threads, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> local(n_cells);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t cell = cell_of(rows[i]);
      if (cell >= 0 && cell < n_cells) local[cell] += weight[i];
    }
    for (int64_t c = 0; c < n_cells; ++c)
      if (local[c]) AtomicRef(total[c]).add(local[c]);
  });
}

struct QueryCall {
  const double *prediction, *relevance, *discount, *best;
  const int64_t* offset;
  double* out;
  int64_t n_queries, k;
  int n_threads;
};

// The rows of the first ranks; equal scores stay in the order of rows.
const int32_t* rank_rows(const double* score, int64_t n_rows, int64_t n_ranks) {
  thread_local std::vector<int32_t> order;
  order.resize(n_rows);
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + n_ranks, order.end(), [=](int32_t a, int32_t b) {
    return score[a] > score[b] || (score[a] == score[b] && a < b);
  });
  return order.data();
}

template <class Value>
void query_values(const QueryCall& call) {
  parallel_tasks(call.n_queries, call.n_threads, [&](int64_t query) {
    const int64_t begin = call.offset[query], n_rows = call.offset[query + 1] - begin;
    const int64_t n_ranks = std::min(call.k, n_rows);
    const double* relevance = call.relevance + begin;
    const int32_t* order = rank_rows(call.prediction + begin, n_rows, n_ranks);
    Value value;
    for (int64_t rank = 0; rank < n_ranks; ++rank)
      value.add(rank, relevance[order[rank]], call.discount);
    call.out[query] = value.value(call.best[query], call.k);
  });
}

struct NamedValue {
  const char* name;
  void (*values)(const QueryCall&);
};

#define QUERY_VALUE(NAME, VALUE) {#NAME, &query_values<VALUE>},
constexpr NamedValue VALUES[] = {BG_QUERY_VALUES(QUERY_VALUE)};

void metric_of_queries(const char* kernel, const Vector<const double>& prediction,
                       const Vector<const double>& relevance, const Vector<const int64_t>& offset,
                       const Vector<const double>& discount, const Vector<const double>& best,
                       int64_t k, const Vector<double>& out, int n_threads) {
  const auto n_queries = static_cast<int64_t>(best.shape(0));
  const auto n_rows = static_cast<int64_t>(prediction.shape(0));
  require(static_cast<int64_t>(offset.shape(0)) == n_queries + 1 && offset(0) == 0 &&
              offset(n_queries) == n_rows,
          "queries do not cover the rows");
  for (int64_t q = 0; q < n_queries; ++q)
    require(offset(q) <= offset(q + 1) &&
                std::min(k, offset(q + 1) - offset(q)) <= static_cast<int64_t>(discount.shape(0)),
            "bad query offsets");
  require(static_cast<int64_t>(relevance.shape(0)) == n_rows &&
              static_cast<int64_t>(out.shape(0)) == n_queries && k > 0,
          "query arrays differ in length");
  const QueryCall call{prediction.data(),
                       relevance.data(),
                       discount.data(),
                       best.data(),
                       offset.data(),
                       out.data(),
                       n_queries,
                       k,
                       threads_for_rows(n_rows, n_threads)};
  const NamedValue& value = find_named(VALUES, kernel);
  WithoutGil released;
  value.values(call);
}

nb::list names_of_metric_kernels() {
  nb::list names;
  for (const NamedTerm& term : TERMS) names.append(term.name);
  for (const NamedValue& value : VALUES) names.append(value.name);
  return names;
}

}  // namespace

void init_metrics(nb::module_& m) {
  m.def("metric_kernels", &names_of_metric_kernels, "Names that kernels/shared/metrics.h lists.");
  m.def("metric_terms", &metric_terms, "kernel"_a, "prediction"_a, "label"_a, "weight"_a.none(),
        "setting"_a, "outputs"_a, "out"_a, "n_threads"_a, "simd"_a,
        "Writes the term of each row, times its weight (None: one); returns the largest "
        "magnitude. prediction is (n_rows, n_outputs), label (n_rows, 1 or n_outputs); outputs is "
        "(first, last).");
  m.def("sum_in_units", &sum_in_units, "values"_a, "exponent"_a, "n_threads"_a, "simd"_a,
        "The sum of values * 2^exponent, each rounded to even and below 2^51.");
  m.def("cell_sums", &cell_sums, "prediction"_a, "label"_a, "whole"_a, "outputs"_a, "sums"_a,
        "n_threads"_a, "Whole weights of each pair (true class, predicted class).");
  m.def("metric_of_queries", &metric_of_queries, "kernel"_a, "prediction"_a, "relevance"_a,
        "offset"_a, "discount"_a, "best"_a, "k"_a, "out"_a, "n_threads"_a,
        "Writes the value of each query: of its first k ranks.");
}

}  // namespace bitgrove
