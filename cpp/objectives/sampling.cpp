// Which rows a tree is grown on: row lists, and gradients of which only some rows are kept.
#include "sampling.h"

#include <algorithm>
#include <vector>

#include "bindings/gil.h"
#include "bindings/records.h"
#include "bindings/rooms.h"
#include "common/parallel.h"
#include "objectives/gradients.h"

namespace bitgrove {
namespace {

// 0, 1, 2, ...
void list_rows(const Vector<int32_t>& rows, int n_threads) {
  int32_t* out = rows.data();
  WithoutGil released;
  parallel_rows(rows.shape(0), n_threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = static_cast<int32_t>(i);
  });
}

// The rows that are drawn, ascending: sampling without any stream of numbers.
int64_t select_rows(uint64_t key, uint64_t first_row, uint64_t limit, const Vector<int32_t>& rows,
                    const Optional<const uint64_t>& ids, const Optional<const uint64_t>& limits) {
  int32_t* out = rows.data();
  const int64_t n = rows.shape(0);
  for (const auto& each : {ids, limits})
    require(!each || static_cast<int64_t>(each->shape(0)) == n, "ids or limits differ in length");
  const Draw draw{key, first_row, limit, ids ? ids->data() : nullptr,
                  limits ? limits->data() : nullptr};
  int64_t n_selected = 0;
  WithoutGil released;
  for (int64_t i = 0; i < n; ++i) {
    out[n_selected] = static_cast<int32_t>(i);
    n_selected += is_drawn(draw, i);
  }
  return n_selected;
}

double hess_at(const float* hess, int64_t i) { return hess ? static_cast<double>(hess[i]) : 1.0; }

// How many sizes fall into each bucket of magnitudes.
void count_importance(const Vector<const float>& grad, const Optional<const float>& hess,
                      double hess_share, const Vector<int64_t>& counts, int n_threads) {
  const int64_t n = grad.shape(0);
  require(counts.shape(0) == MAGNITUDE_BUCKETS, "counts must have an entry for each bucket");
  require(!hess || static_cast<int64_t>(hess->shape(0)) == n, "grad and hess differ in length");
  const float *g = grad.data(), *h = hess ? hess->data() : nullptr;
  std::fill_n(counts.data(), MAGNITUDE_BUCKETS, 0);
  WithoutGil released;
  parallel_rows(n, n_threads, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> local(MAGNITUDE_BUCKETS);
    for (int64_t i = begin; i < end; ++i) {
      const double size = importance(static_cast<double>(g[i]), hess_at(h, i), hess_share);
      ++local[magnitude_bits(to_gradient(size)) >> MAGNITUDE_SHIFT];
    }
    add_counts(local, counts.data());
  });
}

void keep_rows(const Vector<const float>& grad, const Optional<const float>& hess,
               const KeepRule& rule, const Vector<float>& out_grad, const Vector<float>& out_hess,
               int n_threads) {
  const int64_t n = grad.shape(0);
  require(!hess || static_cast<int64_t>(hess->shape(0)) == n, "grad and hess differ in length");
  for (const auto& out : {out_grad, out_hess})
    require(static_cast<int64_t>(out.shape(0)) == n, "gradients in and out differ in length");
  const float *grads = grad.data(), *hesses = hess ? hess->data() : nullptr;
  float *kept_grad = out_grad.data(), *kept_hess = out_hess.data();
  WithoutGil released;
  parallel_rows(n, n_threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const double g = static_cast<double>(grads[i]), h = hess_at(hesses, i);
      const double weight = kept_weight(rule, g, h, i);
      kept_grad[i] = to_gradient(g * weight);
      kept_hess[i] = to_gradient(h * weight);
    }
  });
}

RecordArray magnitudes(const Vector<const float>& grad, const Vector<const float>& hess,
                       int n_threads) {
  const int64_t n = grad.shape(0);
  require(static_cast<int64_t>(hess.shape(0)) == n, "grad and hess differ in length");
  std::vector<Magnitudes> all(1);
  {
    WithoutGil released;
    parallel_rows(n, n_threads, [&](int64_t begin, int64_t end) {
      Magnitudes mine{};
      take_magnitudes(grad.data() + begin, hess.data() + begin, end - begin, mine);
      add_magnitudes(all[0], mine);
    });
  }
  return to_records(all);
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
        "n_threads"_a,
        "Gradients of the kept rows, divided by their chance to be kept, zero of the others.");
  m.def("magnitudes", &magnitudes, "grad"_a, "hess"_a, "n_threads"_a, "One Magnitudes.");
}

}  // namespace bitgrove
