// exp, log and sigmoid over arrays: for metrics and for turning scores into probabilities.
#include "math.h"

#include <algorithm>

#include "bindings/gil.h"
#include "bindings/rooms.h"
#include "common/parallel.h"
#include "common/powers.h"

namespace bitgrove {
namespace {

// Numbers that take each step of an exponential together.
constexpr int64_t POWERS = 256;

void exps(const double* x, int64_t n, double* out, Simd simd) {
  std::copy_n(x, n, out);
  exact_exps(out, n, simd);
}

// As exact_sigmoid.
void sigmoids(const double* x, int64_t n, double* out, Simd simd) {
  for (int64_t i = 0; i < n; ++i) out[i] = -x[i];
  exact_exps(out, n, simd);
  for (int64_t i = 0; i < n; ++i) out[i] = 1.0 / (1.0 + out[i]);
}

void logs(const double* x, int64_t n, double* out, Simd simd) {
  with_simd<Simd::avx2>(simd, [=] {
    for (int64_t i = 0; i < n; ++i) out[i] = exact_log(x[i]);
  });
}

template <void (*function)(const double*, int64_t, double*, Simd)>
void apply(const Vector<const double>& x, const Vector<double>& out, int n_threads, int simd) {
  require(x.shape(0) == out.shape(0), "x and out differ in length");
  const double* in = x.data();
  double* result = out.data();
  WithoutGil released;
  parallel_rows(x.shape(0), n_threads, [=](int64_t begin, int64_t end) {
    function(in + begin, end - begin, result + begin, static_cast<Simd>(simd));
  });
}

}  // namespace

// Step by step: from end to end an exponential takes so long that a processor sees too few of them
// at once to keep its units busy.
void exact_exps(double* x, int64_t n, Simd simd) {
  for (; n > 0; n -= POWERS, x += POWERS)
    with_simd(simd, [x, m = std::min(n, POWERS)] {
      alignas(64) double rest[POWERS], shifted[POWERS], p[POWERS];
      for (int64_t i = 0; i < m; ++i) rest[i] = exp_rest(x[i], shifted[i]);
      for (int64_t i = 0; i < m; ++i) p[i] = exp_high_terms(rest[i]);
      for (int64_t i = 0; i < m; ++i) p[i] = exp_low_terms(p[i], rest[i]);
      for (int64_t i = 0; i < m; ++i) x[i] = exp_scaled(p[i], shifted[i]);
    });
}

void init_math(nb::module_& m) {
  const auto bind = [&m](const char* name, auto function) {
    m.def(name, function, "x"_a, "out"_a, "n_threads"_a, "simd"_a);
  };
  bind("exp", &apply<exps>);
  bind("log", &apply<logs>);
  bind("sigmoid", &apply<sigmoids>);
}

}  // namespace bitgrove
