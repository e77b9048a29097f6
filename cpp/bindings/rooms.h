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

#include "common/simd.h"

namespace bitgrove {

namespace nb = nanobind;
using namespace nb::literals;  // "name"_a

template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using Optional = std::optional<Vector<T>>;

// Bindings check sizes before a kernel runs: a wrong call is an exception, never a bad read.
inline void require(bool ok, const char* what) {
  if (!ok) throw std::invalid_argument(std::string("bitgrove core: ") + what);
}

void init_records(nb::module_& m);
void init_math(nb::module_& m);
void init_edges(nb::module_& m);
void init_binning(nb::module_& m);
void init_canonical(nb::module_& m);
void init_copies(nb::module_& m);
void init_tile_layout(nb::module_& m);
void init_sparse_table(nb::module_& m);
void init_sparse_bins(nb::module_& m);
void init_gradients(nb::module_& m);
void init_quantize(nb::module_& m);
void init_metrics(nb::module_& m);
void init_order(nb::module_& m);
void init_sampling(nb::module_& m);
void init_tree(nb::module_& m);
void init_messages(nb::module_& m);
void init_partition(nb::module_& m);
void init_frontier(nb::module_& m);
void init_cuda(nb::module_& m);
void init_leaves(nb::module_& m);
void init_walk(nb::module_& m);
void init_forest(nb::module_& m);
void init_predict(nb::module_& m);
void init_predict_sparse(nb::module_& m);
void init_shap_forest(nb::module_& m);
void init_shap(nb::module_& m);
void init_interventional(nb::module_& m);

}  // namespace bitgrove
