// The GPU's launches and rounds for Python. Addresses and handles are CuPy's, as integers.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>

#include "bindings/gil.h"
#include "bindings/numpy_arrays.h"
#include "bindings/records.h"
#include "bindings/rooms.h"
#include "cuda/ahead.h"
#include "cuda/cuda_leaves.h"
#include "cuda/cuda_tree.h"
#include "cuda/ring.h"
#include "growth/rounds.h"

namespace bitgrove {
namespace {

// Every number that kernels take has 8 bytes: int64_t (or an address), uint64_t or double.
uint64_t number_bits(nb::handle value) {
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

// The memory of a contiguous array, whatever its dtype.
class ArrayBytes {
 public:
  ArrayBytes(nb::handle array, int flags) {
    if (PyObject_GetBuffer(array.ptr(), &view_, flags) != 0) throw nb::python_error();
  }
  ArrayBytes(const ArrayBytes&) = delete;
  ArrayBytes& operator=(const ArrayBytes&) = delete;
  ~ArrayBytes() { PyBuffer_Release(&view_); }

  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_;
};

void add_bytes(std::vector<uint64_t>& words, std::span<const std::byte> bytes) {
  require(bytes.size() % sizeof(uint64_t) == 0, "records of a kernel have fields of 8 bytes");
  const size_t first = words.size();
  words.resize(first + bytes.size() / sizeof(uint64_t));
  std::memcpy(words.data() + first, bytes.data(), bytes.size());
}

bool is_array(nb::handle argument) {  // NumPy's numbers have no shape
  return nb::hasattr(argument, "shape") && nb::len(nb::object(argument.attr("shape"))) > 0;
}

// Adds a kernel's argument: a number, an Answer, or an array of records whose fields have 8 bytes.
void add_argument(std::vector<uint64_t>& words, nb::handle argument) {
  if (PyLong_Check(argument.ptr()) || PyFloat_Check(argument.ptr()))
    words.push_back(number_bits(argument));
  else if (nb::isinstance<Answer>(argument))
    add_bytes(words, std::as_bytes(std::span(&nb::cast<const Answer&>(argument).place, 1)));
  else if (is_array(argument))
    add_bytes(words, ArrayBytes(argument, PyBUF_C_CONTIGUOUS).bytes());
  else
    words.push_back(number_bits(argument));
}

void launch(const Stream& stream, const Kernel& kernel, std::pair<int64_t, int64_t> grid,
            nb::args arguments) {
  std::vector<uint64_t> words;
  std::vector<size_t> starts;
  for (nb::handle argument : arguments) {
    starts.push_back(words.size());
    add_argument(words, argument);
  }
  std::vector<void*> addresses;
  for (size_t start : starts) addresses.push_back(words.data() + start);
  stream.launch_raw(kernel, {grid.first, grid.second}, addresses.data());
}

// Where the device has copies of the arrays.
std::vector<DeviceAddress> send(Ring& ring, nb::args arrays) {
  std::vector<DeviceAddress> places;
  for (nb::handle array : arrays)
    places.push_back(ring.write(ArrayBytes(array, PyBUF_C_CONTIGUOUS).bytes()));
  if (!places.empty()) ring.flush(places.front());
  return places;
}

void fetch(const Ring& ring, DeviceAddress from, nb::handle array) {
  const ArrayBytes view(array, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
  const std::span<std::byte> to = view.bytes();
  const std::byte* fetched = ring.begin_fetch(from, to.size());
  {
    WithoutGil released;
    ring.stream.wait();
  }
  std::memcpy(to.data(), fetched, to.size());
}

// A verb that waits for the GPU lets other Python threads run meanwhile.
template <class Verb>
auto without_gil(Verb&& verb) {
  WithoutGil released;
  return verb();
}

// What the kernels told, as n records or numbers of a dtype.
RecordArray read(Answer& answer, nb::handle dtype, size_t n_records) {
  const std::span<const int64_t> sums = without_gil([&] { return answer.read(); });
  return new_records(sums.data(), n_records, sums.size_bytes() / n_records, dtype);
}

std::span<const int64_t> items(const Vector<const int64_t>& array) {
  return {array.data(), array.size()};
}

void build(CudaTree& tree, const Records<Build>& builds) {
  without_gil([&] { tree.build(builds.items); });
}

void subtract(CudaTree& tree, const Records<Subtraction>& subtractions,
              std::pair<int64_t, int64_t> bins) {
  without_gil([&] { tree.subtract(subtractions.items, bins.first, bins.second); });
}

RecordArray find(CudaTree& tree, const Records<SearchNode>& nodes,
                 std::pair<int64_t, int64_t> features,
                 const std::optional<Matrix<const uint8_t>>& allowed) {
  const std::span<const uint8_t> rows = flags_of(allowed);
  return to_records(
      without_gil([&] { return tree.find(nodes.items, features.first, features.second, rows); }));
}

RecordArray search(CudaTree& tree, const SearchPlan& plan) {
  return to_records(without_gil([&] { return tree.search(plan); }));
}

RecordArray divide(CudaTree& tree, const Records<Division>& divisions) {
  return to_records(without_gil([&] { return tree.divide(divisions.items); }));
}

// Where the device can keep the books of the tree itself.
void begin(CudaTree& tree, const Frontier& frontier, double alpha) {
  require(!frontier.nodes().empty(), "the frontier was not told the root");
  tree.has_begun = tree.ahead && tree.ahead->takes(tree, frontier);
  if (tree.has_begun) tree.ahead->begin(tree, frontier, alpha);
}

void grow(CudaTree& tree, Frontier& frontier, double alpha,
          const Vector<const int64_t>& missing_bin) {
  require(static_cast<int64_t>(missing_bin.shape(0)) == tree.matrix.n_features,
          "missing bins differ in length");
  WithoutGil released;
  if (tree.has_begun) tree.ahead->follow(tree, frontier);
  tree.has_begun = false;
  grow_rounds(tree, frontier, alpha, missing_bin.data());
}

// For tests: (builds with rows per block, block starts, words per bin).
nb::tuple plan_blocks_for_python(const Records<Build>& builds, int half_bits, int64_t n_tiles,
                                 int n_processors) {
  BlockPlan plan = plan_blocks(builds.items, half_bits, n_tiles, n_processors);
  const size_t n_starts = plan.first_block.size();
  return nb::make_tuple(to_records(plan.builds), to_numpy(std::move(plan.first_block), {n_starts}),
                        plan.words);
}

// Fields of one type that Python sets by name: a table, since each def_rw is code of its own.
template <class Record, class T>
void bind_fields(nb::class_<Record>& bound,
                 std::initializer_list<std::pair<const char*, T Record::*>> fields) {
  for (const auto& [name, field] : fields) bound.def_rw(name, field);
}

void bind_handles(nb::module_& m) {
  nb::class_<Kernel>(m, "Kernel", "A kernel that CuPy loaded, and how it is launched.")
      .def(
          "__init__",
          [](Kernel* self, uint64_t handle, unsigned threads, unsigned shared_bytes) {
            new (self) Kernel{handle, threads, shared_bytes};
          },
          "handle"_a, "threads"_a, "shared_bytes"_a)
      .def_prop_ro("is_set", [](const Kernel& kernel) { return kernel.handle != 0; });
  nb::class_<Stream>(m, "Stream", "A CUDA stream; 0 is the default one.")
      .def(nb::init<uint64_t>(), "handle"_a)
      .def("launch", &launch, "kernel"_a, "grid"_a, "arguments"_a)
      .def(
          "upload",
          [](const Stream& s, DeviceAddress to, uint64_t from, size_t n_bytes) {
            s.upload(to, reinterpret_cast<void*>(from), n_bytes);
          },
          "to"_a, "from_host"_a, "n_bytes"_a)
      .def(
          "download",
          [](const Stream& s, uint64_t to, DeviceAddress from, size_t n_bytes) {
            s.download(reinterpret_cast<void*>(to), from, n_bytes);
          },
          "to_host"_a, "from_device"_a, "n_bytes"_a)
      .def("wait", &Stream::wait, nb::call_guard<WithoutGil>());
  nb::class_<Ring> ring(m, "Ring", "Pinned memory with a twin on the device, for small arrays.");
  bind_fields<Ring, uint64_t>(ring, {{"device", &Ring::device}, {"host", &Ring::host}});
  ring.def(nb::init<>())
      .def_rw("stream", &Ring::stream)
      .def_rw("n_bytes", &Ring::n_bytes)
      .def_prop_ro("room", &Ring::room)
      .def("restart", &Ring::restart)
      .def("send", &send, "arrays"_a)
      .def("fetch", &fetch, "address"_a, "to"_a);
  nb::class_<Answer>(m, "Answer", "Sums that kernels add up and tell the host.")
      .def(
          "__init__",
          [](Answer* self, const Stream& stream) {
            new (self) Answer;
            self->stream = stream;
          },
          "stream"_a)
      .def(
          "use_memory",
          [](Answer& answer, DeviceAddress sums, DeviceAddress n_done, uint64_t told,
             int64_t n_words) {
            answer.place = {sums, n_done, told, 0, 0};
            answer.room = n_words;
          },
          "sums"_a, "n_done"_a, "told"_a, "n_words"_a)
      .def_ro("room", &Answer::room)
      .def("expect", &Answer::expect, "n_words"_a, "n_blocks"_a)
      .def("read", &read, "dtype"_a, "n_records"_a);
}

void bind_leaves(nb::module_& m) {
  nb::class_<CudaLeaves> bound(m, "CudaLeaves", "The leaves of a finished tree on a GPU.");
  bind_fields<CudaLeaves, int64_t>(bound, {{"number_bytes", &CudaLeaves::number_bytes},
                                           {"n_rows", &CudaLeaves::n_rows},
                                           {"n_processors", &CudaLeaves::n_processors}});
  bound
      .def(
          "__init__",
          [](CudaLeaves* self, const Stream& stream, const std::vector<Kernel>& kernels,
             Answer& answer) {
            require(kernels.size() == 3, "leaves have three kernels");
            new (self) CudaLeaves;
            self->stream = stream;
            self->kernels = {kernels[0], kernels[1], kernels[2]};
            self->answer = &answer;
          },
          "stream"_a, "kernels"_a, "answer"_a, nb::keep_alive<1, 4>())
      .def_rw("leaf_of", &CudaLeaves::leaf_of)
      .def(
          "use_rooms",
          [](CudaLeaves& leaves, DeviceAddress device, uint64_t host, int64_t n_bytes) {
            const uint64_t half = static_cast<uint64_t>(n_bytes) / 32 * 16;
            leaves.ranges_room = {device, host, static_cast<int64_t>(half)};
            leaves.values_room = {device + half, host + half, static_cast<int64_t>(half)};
          },
          "device"_a, "host"_a, "n_bytes"_a)
      .def_prop_ro(
          "parts",
          [](const CudaLeaves& leaves) { return std::pair(leaves.parts().x, leaves.parts().y); })
      .def(
          "mark",
          [](CudaLeaves& leaves, DeviceAddress rows, const Vector<const int64_t>& begins,
             const Vector<const int64_t>& ends) { leaves.mark(rows, items(begins), items(ends)); },
          "rows"_a, "begins"_a, "ends"_a)
      .def("sum", &CudaLeaves::sum, "grad"_a, "hess"_a, "grad_unit"_a, "hess_unit"_a)
      .def(
          "add",
          [](const CudaLeaves& leaves, DeviceAddress scores, const Vector<const double>& values) {
            leaves.add(scores, {values.data(), values.size()});
          },
          "scores"_a, "values"_a);
}

void bind_parts(nb::module_& m) {
  nb::class_<TreeKernels> kernels(m, "TreeKernels");
  kernels.def(nb::init<>());
  bind_fields<TreeKernels, Kernel>(kernels, {{"divide", &TreeKernels::divide},
                                             {"place", &TreeKernels::place},
                                             {"clear", &TreeKernels::clear},
                                             {"subtract", &TreeKernels::subtract},
                                             {"find", &TreeKernels::find},
                                             {"build_narrow", &TreeKernels::build_narrow},
                                             {"build", &TreeKernels::build}});
  nb::class_<DeviceMatrix> matrix(m, "DeviceMatrix");
  matrix.def(nb::init<>()).def("place_bins", [](DeviceMatrix& self, const Records<BinsPlace>& two) {
    require(two.items.size() == 2, "bins have two places");
    self.bins = {two.items[0], two.items[1]};
  });
  bind_fields<DeviceMatrix, DeviceAddress>(matrix, {{"bin_offset", &DeviceMatrix::bin_offset},
                                                    {"has_missing", &DeviceMatrix::has_missing},
                                                    {"kinds", &DeviceMatrix::kinds}});
  bind_fields<DeviceMatrix, int64_t>(
      matrix, {{"n_features", &DeviceMatrix::n_features}, {"n_bins", &DeviceMatrix::n_bins}});
  nb::class_<DeviceRules> rules(m, "DeviceRules");
  rules.def(nb::init<>())
      .def_rw("path_smooth", &DeviceRules::path_smooth)
      .def_rw("extra_trees", &DeviceRules::extra_trees);
  bind_fields<DeviceRules, DeviceAddress>(rules, {{"direction", &DeviceRules::direction},
                                                  {"contribution", &DeviceRules::contribution}});
  nb::class_<TreeBuffers> buffers(m, "TreeBuffers");
  buffers.def(nb::init<>())
      .def("use_plan", [](TreeBuffers& self, DeviceAddress device, uint64_t host,
                          int64_t n_bytes) { self.plan_room = {device, host, n_bytes}; })
      .def_rw("n_nodes", &TreeBuffers::n_nodes);
  bind_fields<TreeBuffers, DeviceAddress>(buffers, {{"rows", &TreeBuffers::rows},
                                                    {"counts", &TreeBuffers::counts},
                                                    {"progress", &TreeBuffers::progress},
                                                    {"found", &TreeBuffers::found},
                                                    {"n_done", &TreeBuffers::n_done},
                                                    {"host_left", &TreeBuffers::host_left},
                                                    {"host_splits", &TreeBuffers::host_splits}});
}

}  // namespace

void init_cuda(nb::module_& m) {
  bind_handles(m);
  bind_parts(m);
  bind_leaves(m);
  m.def("plan_blocks", &plan_blocks_for_python, "builds"_a, "half_bits"_a, "n_tiles"_a,
        "n_processors"_a, "How a GPU divides builds into blocks of rows.");
  m.def(
      "ahead_room",
      [](int64_t num_leaves) {
        const AheadRoom room = ahead_room(num_leaves);
        return std::pair(room.device_bytes, room.host_bytes);
      },
      "num_leaves"_a, "Bytes on the device, and pinned on the host, of an AheadGrowth.");
  m.def("has_graphs", &Graph::is_there, "Whether the driver is new enough for an AheadGrowth.");
  nb::class_<AheadGrowth>(m, "AheadGrowth", "Grows trees on a GPU without waiting for the host.")
      .def(
          "__init__",
          [](AheadGrowth* self, const std::vector<Kernel>& kernels, int64_t num_leaves,
             DeviceAddress device, uint64_t host, DeviceAddress missing_bin, bool overlaps) {
            require(kernels.size() == 3, "growing ahead has three kernels");
            require(num_leaves >= 2 && num_leaves <= MOST_AHEAD_LEAVES, "too many leaves");
            new (self) AheadGrowth({kernels[0], kernels[1], kernels[2]}, num_leaves, device, host,
                                   missing_bin, overlaps);
          },
          "kernels"_a, "num_leaves"_a, "device"_a, "host"_a, "missing_bin"_a, "overlaps"_a);
  nb::class_<CudaTree> tree(m, "CudaTree", "One tree on a GPU: the verbs on its arrays.");
  tree.def(nb::init<>())
      .def("copy", [](const CudaTree& self) { return self; })
      .def_rw("stream", &CudaTree::stream)
      .def_rw("kernels", &CudaTree::kernels)
      .def_rw("matrix", &CudaTree::matrix)
      .def_rw("buffers", &CudaTree::buffers)
      .def_rw("wide", &CudaTree::wide)
      .def_rw("rules", &CudaTree::rules)
      .def_rw("split_rules", &CudaTree::split_rules)
      .def("build", &build, "builds"_a)
      .def("subtract", &subtract, "subtractions"_a, "bins"_a)
      .def("find", &find, "nodes"_a, "features"_a, "allowed"_a = nb::none())
      .def("search", &search, "plan"_a)
      .def("divide", &divide, "divisions"_a)
      .def("begin", &begin, "frontier"_a, "alpha"_a)
      .def("grow", &grow, "frontier"_a, "alpha"_a, "missing_bin"_a)
      .def(
          "use_ahead", [](CudaTree& self, AheadGrowth& ahead) { self.ahead = &ahead; }, "ahead"_a,
          nb::keep_alive<1, 2>());
  bind_fields<CudaTree, DeviceAddress>(tree, {{"pool", &CudaTree::pool},
                                              {"packed_rows", &CudaTree::packed_rows},
                                              {"rows", &CudaTree::rows},
                                              {"allowed", &CudaTree::allowed}});
  bind_fields<CudaTree, int64_t>(
      tree, {{"n_slots", &CudaTree::n_slots}, {"n_listed", &CudaTree::n_listed}});
  bind_fields<CudaTree, int>(
      tree, {{"half_bits", &CudaTree::half_bits}, {"n_processors", &CudaTree::n_processors}});
}

}  // namespace bitgrove
