// Rows of a table into memory that a GPU copies from, by all threads.
#include <algorithm>
#include <cstring>

#include "bindings/gil.h"
#include "bindings/rooms.h"
#include "common/parallel.h"

namespace bitgrove {
namespace {

constexpr size_t TASK_BYTES = 256 << 10;

// to: the address of room for all bytes, which follow each other there.
void copy_rows(nb::ndarray<nb::ndim<2>, nb::device::cpu, nb::ro> table, uint64_t to,
               int n_threads) {
  const size_t item = table.itemsize(), n_rows = table.shape(0);
  const size_t row_bytes = table.shape(1) * item;
  if (n_rows == 0 || row_bytes == 0) return;
  require(table.shape(1) == 1 || table.stride(1) == 1, "the values of a row are not neighbours");
  const auto* from = static_cast<const char*>(table.data());
  auto* out = reinterpret_cast<char*>(to);
  const int64_t step = table.stride(0) * static_cast<int64_t>(item);
  const bool is_one = step == static_cast<int64_t>(row_bytes);  // all rows are one piece
  const size_t piece = is_one ? TASK_BYTES : std::max<size_t>(1, TASK_BYTES / row_bytes);
  const size_t n_pieces = is_one ? n_rows * row_bytes : n_rows;
  WithoutGil released;
  parallel_tasks(blocks_of(n_pieces, piece), n_threads, [&](int64_t task) {
    const size_t begin = task * piece, end = std::min(begin + piece, n_pieces);
    if (is_one) {
      std::memcpy(out + begin, from + begin, end - begin);
      return;
    }
    for (size_t i = begin; i < end; ++i)
      std::memcpy(out + i * row_bytes, from + static_cast<int64_t>(i) * step, row_bytes);
  });
}

}  // namespace

void init_copies(nb::module_& m) {
  m.def("copy_rows", &copy_rows, "table"_a, "to"_a, "n_threads"_a,
        "Copies a table, row by row, to an address.");
}

}  // namespace bitgrove
