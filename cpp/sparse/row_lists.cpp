#include "sparse/row_lists.h"

#include <algorithm>

#include "common/parallel.h"

namespace bitgrove {

RowLists::RowLists(int64_t n_rows)
    : n_rows_(n_rows),
      chunks_(blocks_of(n_rows, CHUNK_ROWS)),
      place_(n_rows + blocks_of(n_rows, CHUNK_ROWS)) {}

int64_t RowLists::end_row(int64_t chunk) const { return std::min(first_row(chunk + 1), n_rows_); }

int64_t RowLists::n_bytes() const {
  auto n = static_cast<int64_t>(place_.size() * sizeof(uint32_t));
  for (int64_t chunk = 0; chunk < n_chunks(); ++chunk)
    n += static_cast<int64_t>(sizeof(uint16_t)) * place_[place_of(end_row(chunk) - 1) + 1];
  return n;
}

void RowLists::write(int64_t chunk, const MadeLists& lists) {
  uint32_t* place = &place_[place_of(first_row(chunk))];
  uint32_t n_gaps = 0, k = 0;
  for (size_t i = 0; i < lists.ends.size(); ++i) {
    place[i] = n_gaps;
    for (uint32_t before = 0; k < lists.ends[i]; before = lists.numbers[k++])
      n_gaps += (lists.numbers[k] - before) / MORE + 1;
  }
  place[lists.ends.size()] = n_gaps;
  chunks_[chunk] = std::unique_ptr<uint16_t[]>(new uint16_t[n_gaps]);
  uint16_t* to = chunks_[chunk].get();
  k = 0;
  for (const uint32_t end : lists.ends)
    for (uint32_t before = 0; k < end; before = lists.numbers[k++]) {
      uint32_t gap = lists.numbers[k] - before;
      for (; gap >= MORE; gap -= MORE) *to++ = MORE;
      *to++ = static_cast<uint16_t>(gap);
    }
}

}  // namespace bitgrove
