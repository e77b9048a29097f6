// Gradients of the losses over a query's rows: one task per query, sums in int64 fixed point.
#include "ranking.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <vector>

#include "common/parallel.h"
#include "objectives/gradients.h"
#include "objectives/rank_columns.h"

namespace bitgrove {
namespace {

struct Query : RankQuery {
  const float* weight;
  float *grad, *hess;
};

// x rounded to an integer, ties to even, |x| < 2^62: in two parts of 32 bits, because few
// processors have the conversion for vectors.
BG_FN int64_t fixed(double x) {
  const double shifted = x * 0x1p-32 + ROUNDING_SHIFT;
  const double low = x - (shifted - ROUNDING_SHIFT) * 0x1p32;
  const auto high_bits = static_cast<uint64_t>(bits_of_double(shifted)) << 32;
  const auto low_bits = static_cast<uint64_t>(bits_of_double(low + ROUNDING_SHIFT));
  return static_cast<int64_t>(high_bits + low_bits -
                              static_cast<uint64_t>(bits_of_double(ROUNDING_SHIFT)));
}

// Pairs from which on a query is shared by all threads, and those of one task then: less than a
// tenth of a second, after which Ctrl-C is heard.
constexpr int64_t HUGE_QUERY = int64_t{1} << 26, TASK_PAIRS = int64_t{1} << 24;

struct RankOrder {
  double score;
  int64_t row;

  bool operator<(const RankOrder& other) const {
    return score > other.score || (score == other.score && row < other.row);
  }
};

// Room that a thread keeps from one query to the next.
struct Room {
  std::vector<RankOrder> order;
  std::vector<int64_t> sums, hits;
  RankMemory ranks;
  std::vector<ListRow> rows;
  std::vector<double> label;
};

// hit_at of all relevant ranks down to each.
const int64_t* count_hits(const Query& q, Room& room) {
  room.hits.resize(q.n_rows);
  int64_t found = 0;
  for (int64_t rank = 0; rank < q.n_rows; ++rank) {
    if (q.label[room.order[rank].row] > 0.0) found += hit_at(rank);
    room.hits[rank] = found;
  }
  return room.hits.data();
}

// What a rank gets of its pairs with ranks below, and the sum of their lambdas.
struct UpperSums {
  int64_t grad, hess, lambdas;
};

// How the pairs of a query pull.
struct PullRules {
  LossParameters parameters;
  double inverse_best, unit;
  bool scaled;
};

template <class LossOf>
BG_FN void weigh_pairs(const RankedRow& upper, const RankColumns& others, int64_t first, int64_t n,
                       double inverse_best) {
  double *BG_RESTRICT gap = others.gap, *BG_RESTRICT weight = others.weight;
  for (int64_t k = first; k < n; ++k) {
    const WeighedPair pair = weigh_pair<LossOf>(upper, others.at(k), inverse_best);
    gap[k] = pair.gap;
    weight[k] = pair.weight;
  }
  std::fill_n(gap + n, PAIR_LANES, 0.0);
  std::fill_n(weight + n, PAIR_LANES, 0.0);
}

// Adds the pairs of a rank with the others from `first` on to the others' sums. `scaled` is known
// to the compiler.
BG_FN UpperSums pull_each(double label, const RankColumns& others, int64_t first, int64_t n,
                          const PullRules& rules, bool scaled) {
  const double *gap = others.gap + first, *weight = others.weight + first;
  const double* labels = others.label + first;
  int64_t *BG_RESTRICT grads = others.grad + first, *BG_RESTRICT hesses = others.hess + first;
  const int64_t n_padded = (n - first + PAIR_LANES - 1) / PAIR_LANES * PAIR_LANES;
  int64_t grad_sum = 0, hess_sum = 0, lambdas = 0;
  for (int64_t k = 0; k < n_padded; ++k) {
    const RankPair pair = pull_pair({gap[k], weight[k]}, rules.unit, rules.parameters, scaled);
    const int64_t lambda = fixed(pair.lambda), hess = fixed(pair.hess);
    const int64_t grad = label > labels[k] ? lambda : -lambda;
    grads[k] -= grad;
    hesses[k] += hess;
    grad_sum += grad;
    hess_sum += hess;
    lambdas += lambda;
  }
  return {grad_sum, hess_sum, lambdas};
}

// The same for every loss.
UpperSums pull_pairs(double label, const RankColumns& others, int64_t first, int64_t n,
                     const PullRules& rules, Simd simd) {
  UpperSums sums;
  with_simd(simd, [&] {
    sums = rules.scaled ? pull_each(label, others, first, n, rules, true)
                        : pull_each(label, others, first, n, rules, false);
  });
  return sums;
}

// Puts the ranks from `first` on whose label is another one together; returns how many there are.
template <class LossOf>
int64_t gather_others(const Query& q, const RankTables& tables, const Room& room, int64_t first,
                      const RankColumns& others) {
  const double label = q.label[room.order[first].row];
  int64_t n = 0;
  for (int64_t rank = first + 1; rank < q.n_rows; ++rank) {
    others.set(n, ranked_row<LossOf>(q, tables, room.order[rank].row, rank));
    n += others.label[n] != label;
  }
  std::fill_n(others.label + n, PAIR_LANES, 0.0);
  std::fill_n(others.grad, n + PAIR_LANES, 0);
  std::fill_n(others.hess, n + PAIR_LANES, 0);
  return n;
}

// Adds the pairs of the ranks [begin, end) with all below them to sums, which are in the order of
// the ranks; returns twice the lambdas. Label by label: its pairs are with all other labels.
template <class LossOf>
int64_t add_pairs(const Query& q, const RankTables& tables, const PullRules& rules,
                  const Room& room, RankMemory& memory, Simd simd, int64_t begin, int64_t end,
                  int64_t* sums) {
  const RankColumns others = memory.columns(q.n_rows);
  const auto label_at = [&](int64_t rank) { return q.label[room.order[rank].row]; };
  int64_t total = 0;
  for (int64_t first = begin; first < end; ++first) {
    const double label = label_at(first);
    bool is_new = true;
    for (int64_t i = begin; i < first && is_new; ++i) is_new = label_at(i) != label;
    if (!is_new) continue;
    const int64_t n = gather_others<LossOf>(q, tables, room, first, others);
    int64_t next = 0;
    for (int64_t i = first; i < end; ++i) {
      if (label_at(i) != label) continue;
      while (next < n && others.rank[next] < i) ++next;
      const RankedRow upper = ranked_row<LossOf>(q, tables, room.order[i].row, i);
      with_simd(simd, [&] { weigh_pairs<LossOf>(upper, others, next, n, rules.inverse_best); });
      const UpperSums mine = pull_pairs(label, others, next, n, rules, simd);
      sums[2 * i] += mine.grad;
      sums[2 * i + 1] += mine.hess;
      total -= 2 * mine.lambdas;
    }
    for (int64_t k = 0; k < n; ++k) {
      sums[2 * others.rank[k]] += others.grad[k];
      sums[2 * others.rank[k] + 1] += others.hess[k];
    }
  }
  return total;
}

// Calls add(begin, end, memory, sums) for parts of the ranks, by all threads; they add to integers,
// so that their order does not matter.
using AddRanks =
    std::function<int64_t(int64_t begin, int64_t end, RankMemory& memory, int64_t* sums)>;

int64_t add_in_parts(int64_t n_upper, int n_threads, std::vector<int64_t>& sums,
                     const AddRanks& add) {
  const auto n_rows = static_cast<int64_t>(sums.size()) / 2;
  const int64_t n_ranks = std::max<int64_t>(1, TASK_PAIRS / n_rows);
  std::atomic<int64_t> total{0};
  parallel_tasks(blocks_of(n_upper, n_ranks), n_threads, [&](int64_t task) {
    thread_local std::vector<int64_t> mine;
    thread_local RankMemory memory;
    mine.assign(sums.size(), 0);
    total += add(task * n_ranks, std::min(n_upper, (task + 1) * n_ranks), memory, mine.data());
    for (size_t i = 0; i < sums.size(); ++i)
      if (mine[i]) AtomicRef(sums[i]).add(mine[i]);
  });
  return total;
}

// Rows in the order of their scores, and room for the sums of as many.
void order_rows(const Query& q, Room& room) {
  room.order.resize(q.n_rows);
  room.sums.assign(2 * q.n_rows, 0);
  for (int64_t i = 0; i < q.n_rows; ++i) room.order[i] = {q.score[i], i};
  std::sort(room.order.begin(), room.order.end());
}

// From sums in the order of the ranks.
void write_gradients(const Query& q, const Room& room, double inverse_unit, double norm) {
  for (int64_t rank = 0; rank < q.n_rows; ++rank) {
    const int64_t row = room.order[rank].row;
    const double w = q.weight ? static_cast<double>(q.weight[row]) : 1.0;
    q.grad[row] = rank_gradient(room.sums[2 * rank], inverse_unit, norm, w);
    q.hess[row] = rank_gradient(room.sums[2 * rank + 1], inverse_unit, norm, w);
  }
}

template <class LossOf>
void lambdas_of(Query q, const RankTables& tables, const GradientCall& call, Room& room,
                int n_threads) {
  const LossParameters& parameters = call.parameters;
  const int64_t n = q.n_rows, n_upper = std::min(n, LossOf::truncation(parameters));
  order_rows(q, room);
  if constexpr (LossOf::COUNTS_HITS) q.hits = count_hits(q, room);
  const bool scaled = LossOf::scaled(room.order[0].score, room.order[n - 1].score, parameters);
  const PullRules rules{parameters, q.inverse_best, q.unit, scaled};
  const auto add = [&](int64_t begin, int64_t end, RankMemory& memory, int64_t* to) {
    return add_pairs<LossOf>(q, tables, rules, room, memory, call.simd, begin, end, to);
  };
  const int64_t total = n_upper * n < HUGE_QUERY ? add(0, n_upper, room.ranks, room.sums.data())
                                                 : add_in_parts(n_upper, n_threads, room.sums, add);
  const double inverse_unit = 1.0 / q.unit;
  const double norm = LossOf::norm(static_cast<double>(total) * inverse_unit, parameters);
  write_gradients(q, room, inverse_unit, norm);
}

// A table of the objective, of n entries (-1: of any number).
template <class T>
Vector<const T> table(const GradientCall& call, size_t i, int64_t n) {
  require(i < nb::len(call.tables), "a table of the objective is missing");
  auto found = nb::cast<Vector<const T>>(call.tables[i]);
  require(n < 0 || static_cast<int64_t>(found.shape(0)) == n, "query arrays differ in length");
  return found;
}

void check_queries(const GradientCall& call, const Vector<const int64_t>& offset,
                   int64_t n_discounts) {
  const int64_t n_queries = static_cast<int64_t>(offset.shape(0)) - 1;
  require(n_queries >= 0 && offset(0) == 0 && offset(n_queries) == call.n_rows,
          "queries do not cover the rows");
  for (int64_t q = 0; q < n_queries; ++q)
    require(offset(q) <= offset(q + 1) && offset(q + 1) - offset(q) <= n_discounts,
            "bad query offsets");
}

// Calls work(query, its number, room, n_threads) for each query that has rows: several at a time,
// but one after another with all threads where it has huge(n_rows) work. The same for every loss.
using IsHuge = std::function<bool(int64_t n_rows)>;
using QueryWork = std::function<void(Query& query, int64_t i, Room& room, int n_threads)>;

void by_query(const GradientCall& call, const int64_t* offset, int64_t n_queries,
              const IsHuge& huge, const QueryWork& work) {
  nb::gil_scoped_release release;
  const auto work_on = [&](int64_t i, int n_threads) {
    thread_local Room room;
    const int64_t begin = offset[i], n_rows = offset[i + 1] - begin;
    if (n_rows == 0 || huge(n_rows) != (n_threads > 0)) return;
    room.label.resize(n_rows);
    const double* label = call.label.read(begin, n_rows, room.label.data(), call.simd);
    Query query{{call.scores + begin, label, n_rows, 0.0, 0.0, nullptr},
                call.weight ? call.weight + begin : nullptr,
                call.grad + begin,
                call.hess + begin};
    work(query, i, room, n_threads);
    Magnitudes mine{};
    take_magnitudes(query.grad, query.hess, n_rows, mine);
    add_magnitudes(*call.magnitudes, mine);
  };
  parallel_tasks(n_queries, call.n_threads, [&](int64_t i) { work_on(i, 0); });
  for (int64_t i = 0; i < n_queries; ++i) work_on(i, call.n_threads);
}

// lambdas: lambdas_of some loss.
void rank_queries(const GradientCall& call, int64_t truncation,
                  void (*lambdas)(Query, const RankTables&, const GradientCall&, Room&, int)) {
  require(call.n_outputs == 1, "a ranked loss has one output");
  const auto offset = table<int64_t>(call, 0, -1);
  const int64_t n_queries = static_cast<int64_t>(offset.shape(0)) - 1;
  const auto inverse = table<double>(call, 1, n_queries), unit = table<double>(call, 2, n_queries);
  const auto gain = table<double>(call, 3, -1), discount = table<double>(call, 4, -1);
  check_queries(call, offset, static_cast<int64_t>(discount.shape(0)));
  const RankTables tables{offset.data(), inverse.data(), unit.data(), gain.data(), discount.data()};
  by_query(
      call, offset.data(), n_queries,
      [&](int64_t n_rows) { return std::min(n_rows, truncation) * n_rows >= HUGE_QUERY; },
      [&](Query& query, int64_t i, Room& room, int n_threads) {
        query.inverse_best = inverse(i);
        query.unit = unit(i);
        lambdas(query, tables, call, room, n_threads);
      });
}

template <class LossOf>
void ranked(const GradientCall& call) {
  rank_queries(call, LossOf::truncation(call.parameters), &lambdas_of<LossOf>);
}

// power, worth: sums of theirs; the gradients are corrected by sums of the terms before.
template <class LossOf>
void list_of(const Query& q, const ListTables& tables, const uint64_t* row_id,
             const LossParameters& parameters, std::vector<ListRow>& rows) {
  const int64_t n = q.n_rows;
  const double largest = *std::max_element(q.score, q.score + n);
  int64_t powers = 0, worths = 0, firsts = 0, seconds = 0;
  rows.resize(n);
  for (int64_t i = 0; i < n; ++i) {
    rows[i] = {LossOf::power(q.score[i], largest),
               LossOf::worth(tables, q.label[i], row_id[i], parameters)};
    powers += fixed(rows[i].share * POWER_UNIT);
    worths += fixed(rows[i].target * q.unit);
  }
  const double power = static_cast<double>(powers) / POWER_UNIT;
  const double worth = static_cast<double>(worths) / q.unit;
  for (ListRow& row : rows) {
    row = {row.share / power, row.target / worth};
    firsts += fixed(LossOf::first(row) * CORRECTION_UNIT);
  }
  const double first = static_cast<double>(firsts) / CORRECTION_UNIT;
  for (const ListRow& row : rows) seconds += fixed(LossOf::second(row, first) * CORRECTION_UNIT);
  const double second = static_cast<double>(seconds) / CORRECTION_UNIT;
  for (int64_t i = 0; i < n; ++i) {
    // A row alone has nothing to be ranked against.
    const GradientPair pair =
        n > 1 ? LossOf::gradient(rows[i], first, second) : GradientPair{0.0, 0.0};
    const double w = q.weight ? static_cast<double>(q.weight[i]) : 1.0;
    q.grad[i] = to_gradient(pair.grad * w);
    q.hess[i] = to_gradient(pair.hess * w);
  }
}

template <class LossOf>
void listwise(const GradientCall& call) {
  require(call.n_outputs == 1, "a listwise loss has one output");
  const auto offset = table<int64_t>(call, 0, -1);
  const int64_t n_queries = static_cast<int64_t>(offset.shape(0)) - 1;
  const auto unit = table<double>(call, 1, n_queries), gain = table<double>(call, 2, -1);
  const auto row_id = table<uint64_t>(call, 3, call.n_rows);
  check_queries(call, offset, call.n_rows);
  const ListTables tables{offset.data(), unit.data(), gain.data(), row_id.data()};
  by_query(
      call, offset.data(), n_queries, [](int64_t) { return false; },
      [&](Query& query, int64_t i, Room& room, int) {
        query.unit = unit(i);
        list_of<LossOf>(query, tables, tables.row_id + offset(i), call.parameters, room.rows);
      });
}

}  // namespace

#define RANKED_LOSS(NAME, LOSS) {#NAME, "ranked", &ranked<LOSS>},
#define LISTWISE_LOSS(NAME, LOSS) {#NAME, "listwise", &listwise<LOSS>},

std::vector<Loss> query_losses() {
  return {BG_RANKED_LOSSES(RANKED_LOSS) BG_LISTWISE_LOSSES(LISTWISE_LOSS)};
}

}  // namespace bitgrove
