// For each row an ascending list of numbers below 2^32, as gaps of two bytes.
//
// Lists lie in chunks of rows, each as large as it has to be: chunks are written by several threads
// in any order, and nothing is moved afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/compiler.h"

namespace bitgrove {

// Lists of some rows as they are made: those of row i end at ends[i].
struct MadeLists {
  std::vector<uint32_t> numbers, ends;

  void clear() {
    numbers.clear();
    ends.clear();
  }
  void end_row() { ends.push_back(static_cast<uint32_t>(numbers.size())); }
};

class RowLists {
 public:
  static constexpr int64_t CHUNK_ROWS = 1024;

  explicit RowLists(int64_t n_rows);

  int64_t n_rows() const { return n_rows_; }
  int64_t n_chunks() const { return static_cast<int64_t>(chunks_.size()); }
  int64_t first_row(int64_t chunk) const { return chunk * CHUNK_ROWS; }
  int64_t end_row(int64_t chunk) const;
  int64_t n_bytes() const;

  // Sets the lists of a chunk: those of its rows, in order.
  void write(int64_t chunk, const MadeLists& lists);

  // Calls visit(number) for those of a row.
  template <class Visit>
  void for_each(int64_t row, Visit&& visit) const {
    const uint16_t *at = begin(row), *end = this->end(row);
    uint32_t number = 0;
    while (at < end) {
      const uint16_t gap = *at++;
      number += gap;
      if (gap != MORE) visit(number);
    }
  }

  // Asks for what says where a row's list is, and later for the list.
  void prefetch_place(int64_t row) const { prefetch(&place_[place_of(row)]); }
  void prefetch_list(int64_t row) const {
    const uint16_t* end = this->end(row);
    for (const uint16_t* at = begin(row); at < end; at += GAPS_PER_LINE) prefetch(at);
  }

 private:
  static constexpr uint16_t MORE = 0xFFFF;  // is added, and what follows, too: no number ends here
  static constexpr int64_t GAPS_PER_LINE = 32;

  static int64_t place_of(int64_t row) { return row + row / CHUNK_ROWS; }
  const uint16_t* begin(int64_t row) const {
    return chunks_[row / CHUNK_ROWS].get() + place_[place_of(row)];
  }
  const uint16_t* end(int64_t row) const {
    return chunks_[row / CHUNK_ROWS].get() + place_[place_of(row) + 1];
  }

  int64_t n_rows_;
  std::vector<std::unique_ptr<uint16_t[]>> chunks_;
  std::vector<uint32_t> place_;  // of each row in its chunk; a chunk has one more than rows
};

}  // namespace bitgrove
