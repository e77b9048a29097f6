// Gradients of the losses over a query's rows: one task per query, sums in int64 fixed point.
#include "ranking.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/parallel.h"
#include "objectives/gradients.h"

namespace bitgrove {
namespace {

struct Query : RankQuery {
  const float* weight;
  float *grad, *hess;
};

BG_FN int64_t fixed(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

// Pairs from which on a query is shared by all threads, and those of one task then: less than a
// tenth of a second, after which Ctrl-C is heard.
constexpr int64_t HUGE_QUERY = int64_t{1} << 26, TASK_PAIRS = int64_t{1} << 22;

// Room that a thread keeps from one query to the next.
struct Room {
  std::vector<int64_t> order, sums, hits;
  std::vector<ListRow> rows;
};

// hit_at of all relevant ranks down to each.
const int64_t* count_hits(const Query& q, Room& room) {
  room.hits.resize(q.n_rows);
  int64_t found = 0;
  for (int64_t rank = 0; rank < q.n_rows; ++rank) {
    if (q.label[room.order[rank]] > 0.0) found += hit_at(rank);
    room.hits[rank] = found;
  }
  return room.hits.data();
}

// Adds the pairs of the ranks [begin, end) with all below them to sums; returns twice the lambdas.
template <class LossOf>
int64_t add_pairs(const Query& q, const RankTables& tables, const LossParameters& parameters,
                  const std::vector<int64_t>& order, bool scaled, int64_t begin, int64_t end,
                  int64_t* sums) {
  int64_t total = 0;
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = i + 1; j < q.n_rows; ++j) {
      const int64_t a = order[i], b = order[j];
      if (q.label[a] == q.label[b]) continue;
      const RankPair pair = rank_pair<LossOf>(q, tables, parameters, {a, b, i, j}, scaled);
      const int64_t high = pair.upper_is_high ? a : b, low = pair.upper_is_high ? b : a;
      const int64_t lambda = fixed(pair.lambda), hess = fixed(pair.hess);
      sums[2 * high] += lambda;
      sums[2 * low] -= lambda;
      sums[2 * high + 1] += hess;
      sums[2 * low + 1] += hess;
      total -= 2 * lambda;
    }
  return total;
}

// Calls add(begin, end, sums) for parts of the ranks, by all threads; they add to integers, so that
// their order does not matter.
template <class Add>
int64_t add_in_parts(int64_t n_upper, int n_threads, std::vector<int64_t>& sums, Add&& add) {
  const auto n_rows = static_cast<int64_t>(sums.size()) / 2;
  const int64_t n_ranks = std::max<int64_t>(1, TASK_PAIRS / n_rows);
  std::atomic<int64_t> total{0};
  parallel_tasks(blocks_of(n_upper, n_ranks), n_threads, [&](int64_t task) {
    thread_local std::vector<int64_t> mine;
    mine.assign(sums.size(), 0);
    total += add(task * n_ranks, std::min(n_upper, (task + 1) * n_ranks), mine.data());
    for (size_t i = 0; i < sums.size(); ++i)
      if (mine[i]) AtomicRef(sums[i]).add(mine[i]);
  });
  return total;
}

template <class LossOf>
void lambdas_of(Query q, const RankTables& tables, const LossParameters& parameters, Room& room,
                int n_threads) {
  const int64_t n = q.n_rows, n_upper = std::min(n, LossOf::truncation(parameters));
  auto &order = room.order, &sums = room.sums;
  order.resize(n);
  sums.assign(2 * n, 0);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return q.score[a] > q.score[b]; });
  if constexpr (LossOf::COUNTS_HITS) q.hits = count_hits(q, room);
  const bool scaled = LossOf::scaled(q.score[order[0]], q.score[order[n - 1]], parameters);
  const auto add = [&](int64_t begin, int64_t end, int64_t* to) {
    return add_pairs<LossOf>(q, tables, parameters, order, scaled, begin, end, to);
  };
  const int64_t total = n_upper * n < HUGE_QUERY ? add(0, n_upper, sums.data())
                                                 : add_in_parts(n_upper, n_threads, sums, add);
  const double norm = LossOf::norm(static_cast<double>(total) / q.unit, parameters);
  for (int64_t i = 0; i < n; ++i) {
    const double w = q.weight ? static_cast<double>(q.weight[i]) : 1.0;
    q.grad[i] = rank_gradient(sums[2 * i], q, norm, w);
    q.hess[i] = rank_gradient(sums[2 * i + 1], q, norm, w);
  }
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
// but one after another with all threads where it has huge(n_rows) work.
template <class Huge, class Work>
void by_query(const GradientCall& call, const int64_t* offset, int64_t n_queries, Huge huge,
              Work work) {
  nb::gil_scoped_release release;
  const auto work_on = [&](int64_t i, int n_threads) {
    thread_local Room room;
    const int64_t begin = offset[i], n_rows = offset[i + 1] - begin;
    if (n_rows == 0 || huge(n_rows) != (n_threads > 0)) return;
    Query query{{call.scores + begin, call.label + begin, n_rows, 0.0, 0.0, nullptr},
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

template <class LossOf>
void ranked(const GradientCall& call) {
  require(call.n_outputs == 1, "a ranked loss has one output");
  const auto offset = table<int64_t>(call, 0, -1);
  const int64_t n_queries = static_cast<int64_t>(offset.shape(0)) - 1;
  const auto inverse = table<double>(call, 1, n_queries), unit = table<double>(call, 2, n_queries);
  const auto gain = table<double>(call, 3, -1), discount = table<double>(call, 4, -1);
  check_queries(call, offset, static_cast<int64_t>(discount.shape(0)));
  const RankTables tables{offset.data(), inverse.data(), unit.data(), gain.data(), discount.data()};
  const auto is_huge = [&](int64_t n_rows) {
    return std::min(n_rows, LossOf::truncation(call.parameters)) * n_rows >= HUGE_QUERY;
  };
  by_query(call, offset.data(), n_queries, is_huge,
           [&](Query& query, int64_t i, Room& room, int n_threads) {
             query.inverse_best = inverse(i);
             query.unit = unit(i);
             lambdas_of<LossOf>(query, tables, call.parameters, room, n_threads);
           });
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
