// Gradients to packed low-bit integers by stochastic or nearest rounding.
#include <algorithm>
#include <optional>

#include "bindings/rooms.h"
#include "common/parallel.h"
#include "layouts.h"
#include "rounding.h"

namespace bitgrove {
namespace {

struct Scaling {
  double inverse_grad, inverse_hess, grad_limit, hess_limit;
  uint64_t key, first_row;
  bool stochastic;
};

// What the width planner needs to know of the integers.
struct Totals {
  std::atomic<int64_t> abs_grad{0}, hess{0}, zero_rows{0};
};

template <int HalfBits, bool Stochastic, bool HasHess>
void quantize_block(const float* grad, const float* hess, const Scaling s, int64_t begin,
                    int64_t end, typename Packed<HalfBits>::Sum* out, Totals& totals) {
  int64_t abs_grad = 0, hess_sum = 0, zeros = 0;
  for (int64_t i = begin; i < end; ++i) {
    const uint64_t hash =
        Stochastic ? row_hash(s.key, s.first_row + static_cast<uint64_t>(i)) : NEAREST_NOISE;
    const double g =
        clamp(round_with_noise(static_cast<double>(grad[i]) * s.inverse_grad, grad_noise(hash)),
              s.grad_limit);
    const int32_t gi = static_cast<int32_t>(g);
    int32_t hi = 1;
    if constexpr (HasHess)
      hi = static_cast<int32_t>(
          clamp(round_with_noise(static_cast<double>(hess[i]) * s.inverse_hess, hess_noise(hash)),
                s.hess_limit));
    out[i] = Packed<HalfBits>::pack(gi, hi);
    abs_grad += gi < 0 ? -gi : gi;
    hess_sum += hi;
    zeros += (gi | hi) == 0;
  }
  totals.abs_grad += abs_grad;
  totals.hess += hess_sum;
  totals.zero_rows += zeros;
}

template <int HalfBits>
nb::tuple quantize_rows(Vector<const float> grad, Optional<const float> hess, nb::tuple scales,
                        uint64_t key, uint64_t first_row, bool stochastic,
                        Vector<typename Packed<HalfBits>::Sum> out, int n_threads, int simd) {
  const int64_t n = grad.shape(0);
  require(static_cast<int64_t>(out.shape(0)) == n, "grad and out differ in length");
  require(!hess || static_cast<int64_t>(hess->shape(0)) == n, "grad and hess differ in length");
  const Scaling scaling{nb::cast<double>(scales[0]),
                        nb::cast<double>(scales[1]),
                        nb::cast<double>(scales[2]),
                        nb::cast<double>(scales[3]),
                        key,
                        first_row,
                        stochastic};
  const float *g = grad.data(), *h = hess ? hess->data() : nullptr;
  auto* packed = out.data();
  Totals totals;
  {
    nb::gil_scoped_release release;
    parallel_rows(n, n_threads, [&](int64_t begin, int64_t end) {
      with_simd(static_cast<Simd>(simd), [&] {
        if (!h)
          scaling.stochastic
              ? quantize_block<HalfBits, true, false>(g, h, scaling, begin, end, packed, totals)
              : quantize_block<HalfBits, false, false>(g, h, scaling, begin, end, packed, totals);
        else
          scaling.stochastic
              ? quantize_block<HalfBits, true, true>(g, h, scaling, begin, end, packed, totals)
              : quantize_block<HalfBits, false, true>(g, h, scaling, begin, end, packed, totals);
      });
    });
  }
  return nb::make_tuple(totals.abs_grad.load(), totals.hess.load(), totals.zero_rows.load());
}

// Sums of integer gradient and hessian over the listed rows. Where all rows are listed the order
// of the list does not matter: they are read one after the other.
template <int HalfBits>
nb::tuple sum_rows(const void* data, int64_t n_rows, Vector<const int32_t> rows, int n_threads,
                   Simd simd) {
  using Row = Packed<HalfBits>;
  const auto* packed = static_cast<const typename Row::Sum*>(data);
  const int64_t n_listed = rows.shape(0);
  const int32_t* row = n_listed == n_rows ? nullptr : rows.data();
  std::atomic<int64_t> grad{0}, hess{0};
  parallel_rows(n_listed, n_threads, [&](int64_t begin, int64_t end) {
    int64_t grad_sum = 0, hess_sum = 0;
    with_simd(simd, [&, packed, row] {
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
  return nb::make_tuple(grad.load(), hess.load());
}

nb::tuple row_sums(nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu, nb::ro> packed,
                   Vector<const int32_t> rows, int n_threads, int simd_level) {
  const auto n_rows = static_cast<int64_t>(packed.shape(0));
  const auto simd = static_cast<Simd>(simd_level);
  switch (packed.itemsize()) {
    case 2:
      return sum_rows<8>(packed.data(), n_rows, rows, n_threads, simd);
    case 4:
      return sum_rows<16>(packed.data(), n_rows, rows, n_threads, simd);
    case 8:
      return sum_rows<32>(packed.data(), n_rows, rows, n_threads, simd);
    default:
      throw std::invalid_argument("bitgrove core: packed rows of unknown width");
  }
}

// 0, 1, 2, ...
void list_rows(Vector<int32_t> rows, int n_threads) {
  int32_t* out = rows.data();
  nb::gil_scoped_release release;
  parallel_rows(rows.shape(0), n_threads, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) out[i] = static_cast<int32_t>(i);
  });
}

// Row ids whose hash is below the threshold, ascending: sampling without any stream of numbers.
int64_t select_rows(uint64_t key, uint64_t first_row, uint64_t threshold, Vector<int32_t> rows) {
  int32_t* out = rows.data();
  const int64_t n = rows.shape(0);
  int64_t n_selected = 0;
  nb::gil_scoped_release release;
  for (int64_t i = 0; i < n; ++i) {
    out[n_selected] = static_cast<int32_t>(i);
    n_selected += row_hash(key, first_row + static_cast<uint64_t>(i)) < threshold;
  }
  return n_selected;
}

}  // namespace

void init_quantize(nb::module_& m) {
  const auto optional_hess = [&m](const char* name, auto function) {
    m.def(name, function, nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
          nb::arg(), nb::arg(), nb::arg());
  };
  optional_hess("quantize_8", &quantize_rows<8>);
  optional_hess("quantize_16", &quantize_rows<16>);
  optional_hess("quantize_32", &quantize_rows<32>);
  m.def("select_rows", &select_rows);
  m.def("list_rows", &list_rows);
  m.def("row_sums", &row_sums);
}

}  // namespace bitgrove
