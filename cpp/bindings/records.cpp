// See records.h. A record's fields are named here once more, and checked against its size.
#include "bindings/records.h"

#include <initializer_list>
#include <type_traits>

namespace bitgrove {
namespace {

template <class T>
constexpr const char* format_of() {
  if constexpr (std::is_same_v<T, double>) return "<f8";
  if constexpr (std::is_same_v<T, int64_t>) return "<i8";
  if constexpr (std::is_same_v<T, int32_t>) return "<i4";
  if constexpr (std::is_same_v<T, uint32_t>) return "<u4";
  if constexpr (std::is_same_v<T, uint64_t>) return "<u8";
  if constexpr (std::is_same_v<T, uint8_t>) return "u1";
  if constexpr (std::is_same_v<T, BinSet>) return "(4,)<u8";
  static_assert(sizeof(T) == 1 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == sizeof(BinSet),
                "a field of another type");
}

struct Field {
  const char *name, *format;
  size_t offset, size;
};

#define BG_FIELD(RECORD, NAME) \
  Field { #NAME, format_of<decltype(RECORD::NAME)>(), offsetof(RECORD, NAME), sizeof(RECORD::NAME) }
// BG_FIELD of each name, by the preprocessor's own rescanning: enough for 15 of them.
#define BG_EXPAND(...) BG_EXPAND_4(BG_EXPAND_4(BG_EXPAND_4(BG_EXPAND_4(__VA_ARGS__))))
#define BG_EXPAND_4(...) BG_EXPAND_1(BG_EXPAND_1(BG_EXPAND_1(BG_EXPAND_1(__VA_ARGS__))))
#define BG_EXPAND_1(...) __VA_ARGS__
#define BG_EACH(RECORD, NAME, ...) \
  BG_FIELD(RECORD, NAME), __VA_OPT__(BG_EACH_AGAIN BG_PARENS(RECORD, __VA_ARGS__))
#define BG_PARENS ()
#define BG_EACH_AGAIN() BG_EACH
#define BG_RECORD(RECORD, ...) \
  add<RECORD>(dtypes, #RECORD, {BG_EXPAND(BG_EACH(RECORD, __VA_ARGS__))})

// Kept for the life of the process: an array of the core may outlive the module.
nb::handle make_dtype(std::initializer_list<Field> fields, size_t size) {
  nb::list described;
  size_t end = 0;
  for (const Field& field : fields) {
    require(field.offset == end, "a record's fields are not named in their order");
    end += field.size;
    described.append(nb::make_tuple(field.name, field.format));
  }
  require(end == size, "a record has a field without a name");
  return nb::object(nb::module_::import_("numpy").attr("dtype")(described)).release();
}

template <class Record>
nb::handle kept_dtype;

template <class Record>
void add(nb::dict& all, const char* name, std::initializer_list<Field> fields) {
  kept_dtype<Record> = make_dtype(fields, sizeof(Record));
  all[name] = kept_dtype<Record>;
}

template <class... Numbers>
void keep_dtypes_of_numbers() {
  const nb::object dtype = nb::module_::import_("numpy").attr("dtype");
  ((kept_dtype<Numbers> = nb::object(dtype(format_of<Numbers>())).release()), ...);
}

nb::dict make_dtypes() {
  nb::dict dtypes;
  keep_dtypes_of_numbers<int64_t, double>();
  BG_RECORD(RowCounts, active, zero);
  BG_RECORD(GradientSums, grad, hess);
  BG_RECORD(RowTotals, abs_grad, grad, hess, zero_rows, squared_grad, squared_error);
  BG_RECORD(Magnitudes, grad_logs, hess_logs, grad_rows, hess_rows, grad_top, hess_top);
  BG_RECORD(Division, begin, first_zero, end, feature, bin, missing_bin, default_left, left_bins);
  BG_RECORD(Build, begin, end, block_rows, slot, local_width, total_width, reserved);
  BG_RECORD(Subtraction, parent_slot, built_slot, out_slot, parent_width, built_width, out_width);
  BG_RECORD(SearchNode, slot, width, sibling, reserved, grad, hess, min_hess, hess_per_row, lower,
            upper, output, key);
  BG_RECORD(SplitInfo, gain, left_grad, left_hess, feature, bin, default_left, ready, left_bins);
  BG_RECORD(GrownSplit, threshold, gain, hess, rows, feature, left, right, bin, default_left,
            by_subset, reserved);
  BG_RECORD(HistogramPart, first_bin, last_bin, slot, width, message, reserved);
  BG_RECORD(BinnedSplit, feature, left, right, bin, missing_bin, default_left, by_subset);
  BG_RECORD(ForestSplit, threshold, feature, left, right, set);
  BG_RECORD(ShapStep, threshold, share, first_factor, above, feature, set, player, depth, previous,
            kind);
  BG_RECORD(ShapFactor, on, off, gain_on, gain_off);
  BG_RECORD(DeviceColumn, address, stride, feature);
  BG_RECORD(BinsPlace, tiles, columns, n_rows);
  return dtypes;
}

// Made when they are first asked for: the module loads without NumPy, so that its stub can be made
// where there is none.
nb::handle all_dtypes() {
  static const nb::handle all = make_dtypes().release();
  return all;
}

}  // namespace

#define BG_DTYPE_OF(RECORD)       \
  template <>                     \
  nb::handle dtype_of<RECORD>() { \
    all_dtypes();                 \
    return kept_dtype<RECORD>;    \
  }
BG_DTYPE_OF(int64_t)
BG_DTYPE_OF(double)
BG_DTYPE_OF(RowCounts)
BG_DTYPE_OF(GradientSums)
BG_DTYPE_OF(RowTotals)
BG_DTYPE_OF(Magnitudes)
BG_DTYPE_OF(Division)
BG_DTYPE_OF(Build)
BG_DTYPE_OF(Subtraction)
BG_DTYPE_OF(SearchNode)
BG_DTYPE_OF(SplitInfo)
BG_DTYPE_OF(GrownSplit)
BG_DTYPE_OF(HistogramPart)
BG_DTYPE_OF(BinnedSplit)
BG_DTYPE_OF(ForestSplit)
BG_DTYPE_OF(ShapStep)
BG_DTYPE_OF(ShapFactor)
BG_DTYPE_OF(BinsPlace)

std::span<const std::byte> record_bytes(nb::handle array, nb::handle dtype, size_t alignment) {
  if (!array.attr("dtype").equal(dtype) || nb::cast<int>(array.attr("ndim")) != 1)
    throw nb::type_error("an array of other records");
  Py_buffer view;
  if (PyObject_GetBuffer(array.ptr(), &view, PyBUF_C_CONTIGUOUS) != 0) throw nb::python_error();
  // The caller holds the array itself, which owns the memory.
  const std::span<const std::byte> bytes{static_cast<const std::byte*>(view.buf),
                                         static_cast<size_t>(view.len)};
  PyBuffer_Release(&view);
  // NumPy calls every address of a packed record aligned.
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignment != 0)
    throw nb::type_error("records at an odd address");
  return bytes;
}

RecordArray new_records(const void* records, size_t n_records, size_t record_bytes,
                        nb::handle dtype) {
  static const nb::handle ndarray =
      nb::object(nb::module_::import_("numpy").attr("ndarray")).release();
  // NumPy would describe all fields of a buffer of its own before it can be written to.
  const auto bytes = nb::steal(PyByteArray_FromStringAndSize(
      static_cast<const char*>(records), static_cast<Py_ssize_t>(n_records * record_bytes)));
  if (!bytes.is_valid()) throw nb::python_error();
  return nb::borrow<RecordArray>(ndarray(n_records, dtype, bytes));
}

void init_records(nb::module_& m) {
  m.def(
      "dtypes", [] { return nb::borrow<nb::dict>(all_dtypes()); },
      "The NumPy dtype of every record of kernels/shared/plans.h, by its name.");
  nb::dict constants;
#define BG_CONSTANT(NAME) constants[#NAME] = NAME
  BG_CONSTANT(DEFAULT_LEFT_BIT);
  BG_CONSTANT(SUBSET_BIT);
  BG_CONSTANT(FEATURE_BITS);
  BG_CONSTANT(SUBSET);
  BG_CONSTANT(NUMBERS);
  BG_CONSTANT(LEVELS);
  BG_CONSTANT(DRAWN);
  BG_CONSTANT(MAGNITUDE_SHIFT);
  BG_CONSTANT(MAGNITUDE_BUCKETS);
  BG_CONSTANT(SQUARED_ERROR_UNITS);
  BG_CONSTANT(THREADS);
  BG_CONSTANT(PARTITION_THREADS);
  BG_CONSTANT(BUILD_THREADS);
  BG_CONSTANT(AHEAD_THREADS);
  BG_CONSTANT(MOST_AHEAD_LEAVES);
  BG_CONSTANT(MOST_BATCH);
  BG_CONSTANT(WIDE_BUILD_THREADS);
  BG_CONSTANT(RANK_THREADS);
  BG_CONSTANT(EDGE_THREADS);
  BG_CONSTANT(RANK_SCRATCH);
  BG_CONSTANT(PARTITION_ROWS);
  BG_CONSTANT(FEATURES_PER_BLOCK);
  BG_CONSTANT(BIN_ROWS);
  BG_CONSTANT(WORD_BYTES);
  BG_CONSTANT(SHAP_DECIDE);
  BG_CONSTANT(SHAP_RIGHT);
  BG_CONSTANT(SHAP_LEAF);
  BG_CONSTANT(SHAP_LEAVE);
  m.attr("constants") = constants;
}

}  // namespace bitgrove
