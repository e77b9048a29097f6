// The module bitgrove._core: kernels over whole arrays, one room per file.
#include "bindings/gil.h"
#include "bindings/rooms.h"
#include "common/compiler.h"

NB_MODULE(_core, m) {
  using namespace bitgrove;
  nb::set_leak_warnings(false);  // objects kept until the end are meant to be: no warning
  m.doc() = "C++ kernels of bitgrove; called through bitgrove.backends.cpu";
  m.def(
      "best_simd", [] { return static_cast<int>(best_simd()); },
      "0 scalar, 1 AVX2, 2 AVX-512: the best this processor has");
  m.def("give_back_heap", &give_back_heap,
        "Gives memory that was freed back to the system, where the allocator keeps it.");
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&leave_python));
  init_records(m);
  init_math(m);
  init_edges(m);
  init_binning(m);
  init_canonical(m);
  init_copies(m);
  init_tile_layout(m);
  init_sparse_table(m);
  init_sparse_bins(m);
  init_gradients(m);
  init_quantize(m);
  init_metrics(m);
  init_order(m);
  init_sampling(m);
  init_tree(m);
  init_messages(m);
  init_partition(m);
  init_frontier(m);
  init_cuda(m);
  init_leaves(m);
  init_walk(m);
  init_forest(m);
  init_predict(m);
  init_predict_sparse(m);
  init_shap_forest(m);
  init_shap(m);
  init_interventional(m);
}
