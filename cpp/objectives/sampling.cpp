// Which rows a tree is grown on: row lists, and gradients of which only some rows are kept.
#include "sampling.h"

#include <algorithm>
#include <vector>

#include "bindings/rooms.h"
#include "common/parallel.h"
#include "objectives/gradients.h"

namespace bitgrove {
namespace {

// 0, 1, 2, ...
void list_rows(Vector<int32_t> rows, int n_threads) {
  int32_t* out = rows.data();
  nb::gil_scoped_release release;
  parallel_rows(rows.shape(0), n_threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = static_cast<int32_t>(i);
  });
}

// The rows that are drawn, ascending: sampling without any stream of numbers.
int64_t select_rows(uint64_t key, uint64_t first_row, uint64_t limit, Vector<int32_t> rows,
                    Optional<const uint64_t> ids, Optional<const uint64_t> limits) {
  int32_t* out = rows.data();
  const int64_t n = rows.shape(0);
  for (const auto& each : {ids, limits})
    require(!each || static_cast<int64_t>(each->shape(0)) == n, "ids or limits differ in length");
  const Draw draw{key, first_row, limit, ids ? ids->data() : nullptr,
                  limits ? limits->data() : nullptr};
  int64_t n_selected = 0;
  nb::gil_scoped_release release;
  for (int64_t i = 0; i < n; ++i) {
    out[n_selected] = static_cast<int32_t>(i);
    n_selected += is_drawn(draw, i);
  }
  return n_selected;
}

double hess_at(const float* hess, int64_t i) { return hess ? static_cast<double>(hess[i]) : 1.0; }

// How many sizes fall into each bucket of magnitudes.
void count_importance(Vector<const float> grad, Optional<const float> hess, double hess_share,
                      Vector<int64_t> counts, int n_threads) {
  const int64_t n = grad.shape(0);
  require(counts.shape(0) == MAGNITUDE_BUCKETS, "counts must have an entry for each bucket");
  require(!hess || static_cast<int64_t>(hess->shape(0)) == n, "grad and hess differ in length");
  const float *g = grad.data(), *h = hess ? hess->data() : nullptr;
  std::fill_n(counts.data(), MAGNITUDE_BUCKETS, 0);
  nb::gil_scoped_release release;
  parallel_rows(n, n_threads, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> local(MAGNITUDE_BUCKETS);
    for (int64_t i = begin; i < end; ++i) {
      const double size = importance(static_cast<double>(g[i]), hess_at(h, i), hess_share);
      ++local[magnitude_bits(to_gradient(size)) >> MAGNITUDE_SHIFT];
    }
    add_counts(local, counts.data());
  });
}

struct KeptRows {
  const float *grad, *hess;
  float *out_grad, *out_hess;
  int64_t *grad_counts, *hess_counts;
  uint32_t* tops;
};

void keep_block(const KeptRows& rows, const KeepRule& rule, int64_t begin, int64_t end) {
  std::vector<int64_t> of_grad(MAGNITUDE_BUCKETS), of_hess(MAGNITUDE_BUCKETS);
  for (int64_t i = begin; i < end; ++i) {
    const double g = static_cast<double>(rows.grad[i]), h = hess_at(rows.hess, i);
    const double weight = kept_weight(rule, g, h, i);
    rows.out_grad[i] = to_gradient(g * weight);
    rows.out_hess[i] = to_gradient(h * weight);
    if (weight == 0.0) continue;
    ++of_grad[magnitude_bits(rows.out_grad[i]) >> MAGNITUDE_SHIFT];
    ++of_hess[magnitude_bits(rows.out_hess[i]) >> MAGNITUDE_SHIFT];
  }
  raise_top(rows.tops[0], largest_magnitude(rows.out_grad + begin, end - begin));
  raise_top(rows.tops[1], largest_magnitude(rows.out_hess + begin, end - begin));
  add_counts(of_grad, rows.grad_counts);
  add_counts(of_hess, rows.hess_counts);
}

void keep_rows(Vector<const float> grad, Optional<const float> hess, const KeepRule& rule,
               Vector<float> out_grad, Vector<float> out_hess, Vector<uint32_t> tops,
               Matrix<int64_t> counts, int n_threads) {
  const int64_t n = grad.shape(0);
  require(!hess || static_cast<int64_t>(hess->shape(0)) == n, "grad and hess differ in length");
  for (const auto& out : {out_grad, out_hess})
    require(static_cast<int64_t>(out.shape(0)) == n, "gradients in and out differ in length");
  require(tops.shape(0) == 2, "tops must have two entries");
  require(counts.shape(0) == 2 && counts.shape(1) == MAGNITUDE_BUCKETS,
          "counts must be two rows of an entry for each bucket");
  const KeptRows rows{
      grad.data(),   hess ? hess->data() : nullptr,     out_grad.data(), out_hess.data(),
      counts.data(), counts.data() + MAGNITUDE_BUCKETS, tops.data()};
  nb::gil_scoped_release release;
  parallel_rows(n, n_threads,
                [&](int64_t begin, int64_t end) { keep_block(rows, rule, begin, end); });
}

}  // namespace

void init_sampling(nb::module_& m) {
  nb::class_<KeepRule>(m, "KeepRule", "Which rows are kept by their gradients.")
      .def(
          "__init__",
          [](KeepRule* self, double hess_share, double whole, double base, double slope,
             uint64_t key, uint64_t first_row) {
            new (self) KeepRule{hess_share, whole, base, slope, key, first_row};
          },
          "hess_share"_a, "whole"_a, "base"_a, "slope"_a, "key"_a, "first_row"_a);
  m.def("select_rows", &select_rows, "key"_a, "first_row"_a, "threshold"_a, "rows"_a,
        "ids"_a.none() = nb::none(), "limits"_a.none() = nb::none(),
        "Writes the rows whose id has a hash below the threshold; returns how many they are. ids "
        "and limits, of every row, replace first_row, first_row + 1, ... and the threshold.");
  m.def("list_rows", &list_rows, "rows"_a, "n_threads"_a, "Writes 0, 1, 2, ...");
  m.def("count_importance", &count_importance, "grad"_a, "hess"_a.none(), "hess_share"_a,
        "counts"_a, "n_threads"_a,
        "How many sqrt(grad^2 + hess_share * hess^2) fall into each bucket of magnitudes.");
  m.def("keep_rows", &keep_rows, "grad"_a, "hess"_a.none(), "rule"_a, "out_grad"_a, "out_hess"_a,
        "tops"_a, "counts"_a, "n_threads"_a,
        "Gradients of the kept rows, divided by their chance to be kept, zero of the others. Adds "
        "to tops and counts, which are those of the kept rows.");
}

}  // namespace bitgrove
