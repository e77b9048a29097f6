// One init function per room; core.cpp calls them all.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "common/simd.h"

namespace bitgrove {

namespace nb = nanobind;
using namespace nb::literals;  // "name"_a

// An array that Python passed, in order and on the CPU. A class of ours, so that the code that
// takes one is there once for each kind of array, not once for each argument of every binding.
template <class... Kind>
class GivenArray : public nb::ndarray<Kind..., nb::c_contig, nb::device::cpu> {
 public:
  using Base = nb::ndarray<Kind..., nb::c_contig, nb::device::cpu>;

  NB_NOINLINE GivenArray() noexcept = default;
  NB_NOINLINE GivenArray(const GivenArray& other) = default;
  NB_NOINLINE ~GivenArray() = default;
};

template <class T>
using Vector = GivenArray<T, nb::ndim<1>>;
template <class T>
using Matrix = GivenArray<T, nb::ndim<2>>;
template <class T>
using Optional = std::optional<Vector<T>>;

// Bindings check sizes before a kernel runs: a wrong call is an exception, never a bad read.
inline void require(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(std::string("bitgrove core: ") + what);
}

// Cold: for size, since they run once.
#define BG_INIT [[gnu::cold]] void

BG_INIT init_records(nb::module_& m);
BG_INIT init_math(nb::module_& m);
BG_INIT init_edges(nb::module_& m);
BG_INIT init_binning(nb::module_& m);
BG_INIT init_canonical(nb::module_& m);
BG_INIT init_copies(nb::module_& m);
BG_INIT init_tile_layout(nb::module_& m);
BG_INIT init_sparse_table(nb::module_& m);
BG_INIT init_sparse_bins(nb::module_& m);
BG_INIT init_gradients(nb::module_& m);
BG_INIT init_quantize(nb::module_& m);
BG_INIT init_metrics(nb::module_& m);
BG_INIT init_order(nb::module_& m);
BG_INIT init_sampling(nb::module_& m);
BG_INIT init_tree(nb::module_& m);
BG_INIT init_messages(nb::module_& m);
BG_INIT init_partition(nb::module_& m);
BG_INIT init_frontier(nb::module_& m);
BG_INIT init_cuda(nb::module_& m);
BG_INIT init_leaves(nb::module_& m);
BG_INIT init_walk(nb::module_& m);
BG_INIT init_forest(nb::module_& m);
BG_INIT init_predict(nb::module_& m);
BG_INIT init_predict_sparse(nb::module_& m);
BG_INIT init_shap_forest(nb::module_& m);
BG_INIT init_shap(nb::module_& m);
BG_INIT init_interventional(nb::module_& m);

#undef BG_INIT

}  // namespace bitgrove

namespace nanobind::detail {

template <class... Kind>
struct type_caster<bitgrove::GivenArray<Kind...>> {
  using Caster = make_caster<typename bitgrove::GivenArray<Kind...>::Base>;
  NB_TYPE_CASTER(bitgrove::GivenArray<Kind...>, Caster::Name)

  NB_NOINLINE bool from_python(handle source, uint8_t flags, cleanup_list* cleanup) noexcept {
    Caster caster;
    if (!caster.from_python(source, flags, cleanup)) return false;
    static_cast<typename Value::Base&>(value) = std::move(caster.value);
    return true;
  }
};

template <class... Kind>
struct type_caster<std::optional<bitgrove::GivenArray<Kind...>>> {
  using Caster = make_caster<bitgrove::GivenArray<Kind...>>;
  NB_TYPE_CASTER(std::optional<bitgrove::GivenArray<Kind...>>, optional_name(Caster::Name))

  NB_NOINLINE bool from_python(handle source, uint8_t flags, cleanup_list* cleanup) noexcept {
    if (source.is_none()) return true;
    Caster caster;
    if (!caster.from_python(source, flags, cleanup)) return false;
    value.emplace(caster.value);
    return true;
  }
};

}  // namespace nanobind::detail
