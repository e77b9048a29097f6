// Gradients to packed low-bit integers by stochastic or nearest rounding.
#include <algorithm>
#include <atomic>
#include <optional>
#include <type_traits>
#include <vector>

#include "bindings/gil.h"
#include "bindings/records.h"
#include "bindings/rooms.h"
#include "common/parallel.h"
#include "common/widths.h"
#include "layouts.h"
#include "plans.h"
#include "rounding.h"

namespace bitgrove {
namespace {

using Packed1d = GivenArray<nb::ndim<1>>;

// RowTotals while several threads add to them.
struct SharedTotals {
  std::atomic<int64_t> abs_grad{0}, grad{0}, hess{0}, zero_rows{0};
  std::atomic<int64_t> squared_grad{0}, squared_error{0};
};

template <int HalfBits, bool HasHess>
void quantize_block(const float* grad, const float* hess, const Rounding s, int64_t begin,
                    int64_t end, typename Packed<HalfBits>::Sum* out, SharedTotals& totals) {
  // Of a block's rows of 8 bits a half everything fits 32 bits.
  using Sum = std::conditional_t<HalfBits == 8, int32_t, int64_t>;
  static_assert(ROW_BLOCK * SQUARED_ERROR_UNITS <= INT32_MAX && ROW_BLOCK * 256 * 256 <= INT32_MAX);
  Sum abs_grad = 0, grad_sum = 0, hess_sum = 0, zeros = 0, squares = 0, errors = 0;
  // By bits: a choice would make two loops of this one.
  const uint64_t drawn = s.stochastic ? ~uint64_t{0} : 0, fixed = ~drawn & NEAREST_NOISE;
  for (int64_t i = begin; i < end; ++i) {
    const uint64_t hash = (row_hash(s.key, s.first_row + static_cast<uint64_t>(i)) & drawn) | fixed;
    const double x = static_cast<double>(grad[i]) * s.inverse_grad;
    const double g = clamp(round_with_noise(x, grad_noise(hash)), s.grad_limit);
    const int32_t gi = static_cast<int32_t>(g);
    int32_t hi = 1;
    if constexpr (HasHess)
      hi = static_cast<int32_t>(
          clamp(round_with_noise(static_cast<double>(hess[i]) * s.inverse_hess, hess_noise(hash)),
                s.hess_limit));
    out[i] = Packed<HalfBits>::pack(gi, hi);
    abs_grad += gi < 0 ? -gi : gi;
    grad_sum += gi;
    hess_sum += hi;
    zeros += (gi | hi) == 0;
    if constexpr (HalfBits < 32) {
      squares += gi * gi;
      errors += squared_error(g, x);
    }
  }
  totals.abs_grad += abs_grad;
  totals.grad += grad_sum;
  totals.hess += hess_sum;
  totals.zero_rows += zeros;
  totals.squared_grad += squares;
  totals.squared_error += errors;
}

template <int HalfBits>
void quantize_rows(const float* grad, const float* hess, int64_t n, const Rounding& rounding,
                   void* out, SharedTotals& totals, int n_threads, Simd simd) {
  auto* packed = static_cast<typename Packed<HalfBits>::Sum*>(out);
  // Rows of more than two bytes are rare.
  constexpr Simd widest = HalfBits == 8 ? Simd::avx512 : Simd::avx2;
  parallel_rows(n, n_threads, [&](int64_t begin, int64_t end) {
    with_simd<widest>(simd, [&] {
      if (hess)
        quantize_block<HalfBits, true>(grad, hess, rounding, begin, end, packed, totals);
      else
        quantize_block<HalfBits, false>(grad, hess, rounding, begin, end, packed, totals);
    });
  });
}

RecordArray quantize(const Vector<const float>& grad, const Optional<const float>& hess,
                     const Rounding& rounding, const Packed1d& out, int n_threads, int simd) {
  const int64_t n = grad.shape(0);
  require(static_cast<int64_t>(out.shape(0)) == n, "grad and out differ in length");
  require(!hess || static_cast<int64_t>(hess->shape(0)) == n, "grad and hess differ in length");
  const float *g = grad.data(), *h = hess ? hess->data() : nullptr;
  SharedTotals totals;
  {
    WithoutGil released;
    const auto level = static_cast<Simd>(simd);
    visit_row_width(out.itemsize(), [&](auto row) {
      quantize_rows<decltype(row)::half_bits>(g, h, n, rounding, out.data(), totals, n_threads,
                                              level);
    });
  }
  return to_records(
      std::vector<RowTotals>{{totals.abs_grad, totals.grad, totals.hess, totals.zero_rows,
                              totals.squared_grad, totals.squared_error}});
}

// Sums of integer gradient and hessian over the listed rows. Where all rows are listed the order
// of the list does not matter: they are read one after the other.
template <class Row>
GradientSums sum_rows(const void* data, int64_t n_rows, const int32_t* rows, int64_t n_listed,
                      int n_threads, Simd simd) {
  const auto* packed = static_cast<const typename Row::Sum*>(data);
  const int32_t* row = n_listed == n_rows ? nullptr : rows;
  std::atomic<int64_t> grad{0}, hess{0};
  parallel_rows(n_listed, n_threads, [&](int64_t begin, int64_t end) {
    int64_t grad_sum = 0, hess_sum = 0;
    with_simd<Simd::avx2>(simd, [&, packed, row] {
      int64_t g = 0, h = 0;
      if (row)
        for (int64_t i = begin; i < end; ++i)
          g += Row::grad(packed[row[i]]), h += Row::hess(packed[row[i]]);
      else
        for (int64_t i = begin; i < end; ++i) g += Row::grad(packed[i]), h += Row::hess(packed[i]);
      grad_sum = g, hess_sum = h;
    });
    grad += grad_sum;
    hess += hess_sum;
  });
  return {grad, hess};
}

RecordArray row_sums(const Packed1d& packed_rows, const Vector<const int32_t>& rows, int n_threads,
                     int simd) {
  GradientSums sums;
  {
    WithoutGil released;
    visit_row_width(packed_rows.itemsize(), [&](auto row) {
      sums = sum_rows<decltype(row)>(packed_rows.data(), packed_rows.shape(0), rows.data(),
                                     rows.shape(0), n_threads, static_cast<Simd>(simd));
    });
  }
  return to_records(std::vector<GradientSums>{sums});
}

}  // namespace

void init_quantize(nb::module_& m) {
  nb::class_<Rounding>(m, "Rounding", "How float gradients become integers.")
      .def(
          "__init__",
          [](Rounding* self, double inverse_grad, double inverse_hess, double grad_limit,
             double hess_limit, uint64_t key, uint64_t first_row, bool stochastic) {
            new (self) Rounding{inverse_grad, inverse_hess, grad_limit, hess_limit,
                                key,          first_row,    stochastic};
          },
          "inverse_grad"_a, "inverse_hess"_a, "grad_limit"_a, "hess_limit"_a, "key"_a,
          "first_row"_a, "stochastic"_a);
  m.def("quantize", &quantize, "grad"_a, "hess"_a.none(), "rounding"_a, "out"_a, "n_threads"_a,
        "simd"_a, "Packs gradients into out, whose type is the width; one RowTotals.");
  m.def("row_sums", &row_sums, "packed_rows"_a, "rows"_a, "n_threads"_a, "simd"_a,
        "Sums of the listed rows: one GradientSums.");
}

}  // namespace bitgrove
