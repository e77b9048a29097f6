// exp, log and sigmoid over arrays: for metrics and for turning scores into probabilities.
#include "math.h"

#include <optional>

#include "bindings/rooms.h"
#include "common/parallel.h"

namespace bitgrove {
namespace {

template <double (*Function)(double)>
void apply(const Vector<const double>& x, const Vector<double>& out, int n_threads, int simd) {
  require(x.shape(0) == out.shape(0), "x and out differ in length");
  const double* in = x.data();
  double* result = out.data();
  nb::gil_scoped_release release;
  parallel_rows(x.shape(0), n_threads, [&](int64_t begin, int64_t end) {
    with_simd<Simd::avx2>(static_cast<Simd>(simd), [=] {
      for (int64_t i = begin; i < end; ++i) result[i] = Function(in[i]);
    });
  });
}

}  // namespace

void init_math(nb::module_& m) {
  const auto bind = [&m](const char* name, auto function) {
    m.def(name, function, "x"_a, "out"_a, "n_threads"_a, "simd"_a);
  };
  bind("exp", &apply<exact_exp>);
  bind("log", &apply<exact_log>);
  bind("sigmoid", &apply<exact_sigmoid>);
}

}  // namespace bitgrove
