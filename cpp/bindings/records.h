// Arrays of records (plans.h) between NumPy and the core, checked by their dtype.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "bindings/rooms.h"
#include "plans.h"

namespace bitgrove {

// The NumPy dtype of a record; made once in records.cpp, where every field is named. Plain numbers
// have theirs, too.
template <class Record>
nb::handle dtype_of();

// A new array of records for Python: a copy, which for few of them takes less time than handing
// over memory (numpy_arrays.h).
class RecordArray : public nb::object {
 public:
  static bool is_object(nb::handle) { return true; }
  NB_OBJECT_DEFAULT(RecordArray, nb::object, "numpy.ndarray", is_object)
};

// Records that Python passed, as they lie in its array.
template <class Record>
struct Records {
  nb::object owner;
  std::span<const Record> items;
};

// The memory of a one-dimensional, contiguous, aligned array of that dtype; TypeError for others.
std::span<const std::byte> record_bytes(nb::handle array, nb::handle dtype, size_t alignment);

RecordArray new_records(const void* records, size_t n_records, size_t record_bytes,
                        nb::handle dtype);

template <class Record>
RecordArray to_records(const std::vector<Record>& records) {
  return new_records(records.data(), records.size(), sizeof(Record), dtype_of<Record>());
}

}  // namespace bitgrove

namespace nanobind::detail {

template <class Record>
struct type_caster<bitgrove::Records<Record>> {
  NB_TYPE_CASTER(bitgrove::Records<Record>, const_name("numpy.ndarray"))

  NB_NOINLINE bool from_python(handle source, uint8_t, cleanup_list*) noexcept {
    try {
      const auto bytes =
          bitgrove::record_bytes(source, bitgrove::dtype_of<Record>(), alignof(Record));
      value.owner = borrow(source);
      value.items = {reinterpret_cast<const Record*>(bytes.data()), bytes.size() / sizeof(Record)};
      return true;
    } catch (...) {
      PyErr_Clear();
      return false;
    }
  }
};

}  // namespace nanobind::detail
