// Gradients of the losses over a query's rows: one task per query, sums in int64 fixed point.
#include "ranking.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <vector>

#include "bindings/gil.h"
#include "common/parallel.h"
#include "objectives/gradients.h"
#include "objectives/rank_pairs.h"

namespace bitgrove {
namespace {

struct Query : RankQuery {
  const float* weight;
  float *grad, *hess;
};

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
  PairMemory pairs;
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

// Calls add(begin, end, memory, sums) for parts of the ranks, by all threads; they add to integers,
// so that their order does not matter.
using AddRanks =
    std::function<int64_t(int64_t begin, int64_t end, PairMemory& memory, int64_t* sums)>;

int64_t add_in_parts(int64_t n_upper, int n_threads, std::vector<int64_t>& sums,
                     const AddRanks& add) {
  const auto n_rows = static_cast<int64_t>(sums.size()) / 2;
  const int64_t n_ranks = std::max<int64_t>(1, TASK_PAIRS / n_rows);
  std::atomic<int64_t> total{0};
  parallel_tasks(blocks_of(n_upper, n_ranks), n_threads, [&](int64_t task) {
    thread_local std::vector<int64_t> mine;
    thread_local PairMemory memory;
    mine.assign(sums.size(), 0);
    total += add(task * n_ranks, std::min(n_upper, (task + 1) * n_ranks), memory, mine.data());
    for (size_t i = 0; i < sums.size(); ++i)
      if (mine[i]) AtomicRef(sums[i]).add(mine[i]);
  });
  return total;
}

// Of queries of at most so many rows the order is counted: sorting is slower, since no processor
// can foresee what it compares.
constexpr int64_t MOST_COUNTED = 256;

// A rank is how many rows are before it: of equal scores those above it. PAIR_LANES rows are
// counted for at a time; behind the last one there are as many of the lowest score.
BG_FN void count_ranks(const double* score, int64_t n, int64_t* rank) {
  for (int64_t first = 0; first < n; first += PAIR_LANES) {
    const double* mine = score + first;
    int64_t before[PAIR_LANES] = {};
    for (int64_t j = 0; j < first; ++j)
      for (int64_t lane = 0; lane < PAIR_LANES; ++lane) before[lane] += score[j] >= mine[lane];
    for (int64_t j = 0; j < PAIR_LANES; ++j)
      for (int64_t lane = 0; lane < PAIR_LANES; ++lane)
        before[lane] += (mine[j] > mine[lane]) | ((mine[j] == mine[lane]) & (j < lane));
    for (int64_t j = first + PAIR_LANES; j < n; ++j)
      for (int64_t lane = 0; lane < PAIR_LANES; ++lane) before[lane] += score[j] > mine[lane];
    for (int64_t lane = 0; lane < PAIR_LANES; ++lane) rank[first + lane] = before[lane];
  }
}

// Rows in the order of their scores, and room for the sums of as many.
void order_rows(const Query& q, Room& room, Simd simd) {
  room.order.resize(q.n_rows);
  room.sums.assign(2 * q.n_rows, 0);
  if (q.n_rows > MOST_COUNTED) {
    for (int64_t i = 0; i < q.n_rows; ++i) room.order[i] = {q.score[i], i};
    return std::sort(room.order.begin(), room.order.end());
  }
  double score[MOST_COUNTED + PAIR_LANES];
  int64_t rank[MOST_COUNTED + PAIR_LANES];
  std::copy_n(q.score, q.n_rows, score);
  std::fill_n(score + q.n_rows, PAIR_LANES, -std::numeric_limits<double>::infinity());
  with_simd(simd, [&] { count_ranks(score, q.n_rows, rank); });
  for (int64_t i = 0; i < q.n_rows; ++i) room.order[rank[i]] = {q.score[i], i};
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
  order_rows(q, room, call.simd);
  if constexpr (LossOf::COUNTS_HITS) q.hits = count_hits(q, room);
  const bool scaled = LossOf::scaled(room.order[0].score, room.order[n - 1].score, parameters);
  const PullRules rules{parameters, q.inverse_best, q.unit, scaled};
  const RankColumns ranks = room.ranks.columns(n);
  for (int64_t rank = 0; rank < n; ++rank)
    ranks.set<LossOf::COUNTS_HITS>(rank, ranked_row<LossOf>(q, tables, room.order[rank].row, rank));
  const auto add = [&](int64_t begin, int64_t end, PairMemory& memory, int64_t* to) {
    return add_pairs<LossOf>(ranks, n, rules, memory, call.simd, begin, end, to);
  };
  const int64_t total = n_upper * n < HUGE_QUERY ? add(0, n_upper, room.pairs, room.sums.data())
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
  WithoutGil released;
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
