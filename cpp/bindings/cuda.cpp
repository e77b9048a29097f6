// The GPU's launches and rounds for Python. Addresses and handles are CuPy's, as integers.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <string>

#include "bindings/numpy_arrays.h"
#include "bindings/rooms.h"
#include "cuda/rounds.h"
#include "tree/rounds.h"

namespace bitgrove {
namespace {

// Every scalar that kernels take has 8 bytes: int64_t (or an address), uint64_t or double.
uint64_t argument_bits(nb::handle value) {
  if (nb::isinstance<nb::float_>(value)) {
    const double number = nb::cast<double>(value);
    uint64_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
  }
  uint64_t bits;
  if (nb::try_cast(value, bits)) return bits;
  return static_cast<uint64_t>(nb::cast<int64_t>(value));
}

void launch(const Stream& stream, const Kernel& kernel, std::pair<int64_t, int64_t> grid,
            nb::args arguments) {
  std::vector<uint64_t> values;
  for (nb::handle value : arguments) values.push_back(argument_bits(value));
  std::vector<void*> addresses;
  for (uint64_t& value : values) addresses.push_back(&value);
  stream.launch_raw(kernel, {grid.first, grid.second}, addresses.data());
}

std::vector<int64_t> flat(const Matrix<const int64_t>& plan, int64_t n_columns) {
  require(static_cast<int64_t>(plan.shape(1)) == n_columns,
          "a plan has the wrong number of columns");
  return {plan.data(), plan.data() + plan.size()};
}

auto split_bytes(const std::vector<SplitInfo>& splits) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(splits.data());
  const size_t n_bytes = splits.size() * sizeof(SplitInfo);
  return to_numpy(std::vector<uint8_t>(bytes, bytes + n_bytes), {n_bytes});
}

auto partition(DeviceRounds& rounds, Matrix<const int64_t> plan) {
  std::vector<int64_t> steps = flat(plan, DIVISION_COLUMNS);
  std::vector<int64_t> left;
  {
    nb::gil_scoped_release release;
    for (const RowCounts& counts : rounds.partition(steps))
      left.insert(left.end(), {counts.active, counts.zero});
  }
  const size_t n = left.size() / 2;
  return to_numpy(std::move(left), {n, 2});
}

void build(DeviceRounds& rounds, Matrix<const int64_t> plan) {
  rounds.build(flat(plan, BUILD_COLUMNS));
}

void subtract(DeviceRounds& rounds, Matrix<const int64_t> plan, std::pair<int64_t, int64_t> bins) {
  rounds.subtract(flat(plan, SUBTRACTION_COLUMNS), bins.first, bins.second);
}

auto find(DeviceRounds& rounds, Vector<const int64_t> slots, Matrix<const double> sums,
          std::pair<int64_t, int64_t> features) {
  require(sums.shape(0) == slots.shape(0) && sums.shape(1) == 3, "node arrays differ in length");
  SearchPlan plan;
  plan.slots.assign(slots.data(), slots.data() + slots.size());
  plan.sums.assign(sums.data(), sums.data() + sums.size());
  return split_bytes(rounds.find(plan, features.first, features.second));
}

void grow(DeviceRounds& rounds, Frontier& frontier, double alpha,
          Vector<const int64_t> missing_bin) {
  require(static_cast<int64_t>(missing_bin.shape(0)) == rounds.matrix.n_features,
          "missing bins differ in length");
  nb::gil_scoped_release release;
  grow_rounds(rounds, frontier, alpha, missing_bin.data());
}

// (plan with rows per block, block starts, words per bin).
nb::tuple block_plan(Matrix<const int64_t> plan, int half_bits, int64_t n_tiles, int n_processors) {
  BlockPlan blocks = plan_blocks(flat(plan, BUILD_COLUMNS), half_bits, n_tiles, n_processors);
  const size_t n_starts = blocks.first_block.size();
  return nb::make_tuple(to_numpy(std::move(blocks.steps), {n_starts - 1, BUILD_COLUMNS}),
                        to_numpy(std::move(blocks.first_block), {n_starts}), blocks.words);
}

void bind_handles(nb::module_& m) {
  nb::class_<Kernel>(m, "Kernel")
      .def("__init__", [](Kernel* self, uint64_t handle, unsigned threads, unsigned shared_bytes) {
        new (self) Kernel{handle, threads, shared_bytes};
      });
  nb::class_<Stream>(m, "Stream")
      .def(nb::init<uint64_t>())
      .def("launch", &launch)
      .def("upload", [](const Stream& s, DeviceAddress to, uint64_t from,
                        size_t n) { s.upload(to, reinterpret_cast<void*>(from), n); })
      .def("download", [](const Stream& s, uint64_t to, DeviceAddress from,
                          size_t n) { s.download(reinterpret_cast<void*>(to), from, n); })
      .def("wait", &Stream::wait, nb::call_guard<nb::gil_scoped_release>());
}

void bind_parts(nb::module_& m) {
  nb::class_<RoundKernels>(m, "RoundKernels")
      .def(nb::init<>())
      .def_rw("divide", &RoundKernels::divide)
      .def_rw("place", &RoundKernels::place)
      .def_rw("clear", &RoundKernels::clear)
      .def_rw("subtract", &RoundKernels::subtract)
      .def_rw("find", &RoundKernels::find)
      .def_rw("build_narrow", &RoundKernels::build_narrow)
      .def_rw("build", &RoundKernels::build);
  nb::class_<DeviceMatrix>(m, "DeviceMatrix")
      .def(nb::init<>())
      .def_rw("tiles", &DeviceMatrix::tiles)
      .def_rw("columns", &DeviceMatrix::columns)
      .def_rw("bin_offset", &DeviceMatrix::bin_offset)
      .def_rw("has_missing", &DeviceMatrix::has_missing)
      .def_rw("n_rows", &DeviceMatrix::n_rows)
      .def_rw("n_features", &DeviceMatrix::n_features)
      .def_rw("n_bins", &DeviceMatrix::n_bins);
  nb::class_<RoundBuffers>(m, "RoundBuffers")
      .def(nb::init<>())
      .def_rw("rows", &RoundBuffers::rows)
      .def_rw("counts", &RoundBuffers::counts)
      .def_rw("progress", &RoundBuffers::progress)
      .def_rw("found", &RoundBuffers::found)
      .def_rw("n_done", &RoundBuffers::n_done)
      .def_rw("plan", &RoundBuffers::plan)
      .def_rw("host_plan", &RoundBuffers::host_plan)
      .def_rw("host_left", &RoundBuffers::host_left)
      .def_rw("host_splits", &RoundBuffers::host_splits)
      .def_rw("plan_bytes", &RoundBuffers::plan_bytes)
      .def_rw("n_nodes", &RoundBuffers::n_nodes);
}

}  // namespace

void init_cuda(nb::module_& m) {
  bind_handles(m);
  bind_parts(m);
  m.def("block_plan", &block_plan);
  nb::class_<DeviceRounds>(m, "DeviceRounds")
      .def(nb::init<>())
      .def_rw("stream", &DeviceRounds::stream)
      .def_rw("kernels", &DeviceRounds::kernels)
      .def_rw("matrix", &DeviceRounds::matrix)
      .def_rw("buffers", &DeviceRounds::buffers)
      .def_rw("pool", &DeviceRounds::pool)
      .def_rw("packed", &DeviceRounds::packed)
      .def_rw("rows", &DeviceRounds::rows)
      .def_rw("allowed", &DeviceRounds::allowed)
      .def_rw("half_bits", &DeviceRounds::half_bits)
      .def_rw("wide", &DeviceRounds::wide)
      .def_rw("n_processors", &DeviceRounds::n_processors)
      .def("set_rules", [](DeviceRounds& r,
                           std::array<double, 5> v) { r.rules = {v[0], v[1], v[2], v[3], v[4]}; })
      .def("partition", &partition)
      .def("build", &build)
      .def("subtract", &subtract)
      .def("find", &find)
      .def("grow", &grow);
}

}  // namespace bitgrove
