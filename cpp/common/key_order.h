// Rows in the order of 64-bit keys, by all threads: rows are dealt to ranges of keys, and each
// range is sorted by one thread, digit by digit. Equal keys are always in one range.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/key_sort.h"
#include "common/parallel.h"

namespace bitgrove {

struct KeyRow {
  uint64_t key, row;
};
struct KeyOfRow {
  uint64_t operator()(const KeyRow& row) const { return row.key; }
};

// A range should stay in a core's cache while it is sorted. Numbers of ranges are powers of two.
constexpr int64_t RANGE_ROWS = 4096, MAX_RANGES = 256, SAMPLES_PER_RANGE = 16;

inline int64_t ranges_for(int64_t n_rows) {
  const auto wanted =
      static_cast<uint64_t>(std::clamp<int64_t>(n_rows / RANGE_ROWS, 1, MAX_RANGES));
  return static_cast<int64_t>(std::bit_floor(wanted));
}

// Where the ranges after the first begin: keys that divide an even sample of all into equal parts.
class RangeBorders {
 public:
  template <class KeyOf>
  RangeBorders(int64_t n, int64_t n_ranges, KeyOf key_of) : borders_(n_ranges - 1) {
    if (n_ranges == 1) return;
    std::vector<uint64_t> sample(n_ranges * SAMPLES_PER_RANGE);
    const auto n_samples = static_cast<int64_t>(sample.size());
    for (int64_t i = 0; i < n_samples; ++i) sample[i] = key_of(n * i / n_samples);
    std::sort(sample.begin(), sample.end());
    for (int64_t r = 1; r < n_ranges; ++r) borders_[r - 1] = sample[r * SAMPLES_PER_RANGE];
  }

  // How many borders are at or below the key. Without branches: their guesses would be wrong.
  int64_t range_of(uint64_t key) const {
    const uint64_t* at = borders_.data();
    for (auto half = static_cast<int64_t>(borders_.size() + 1) / 2; half > 0; half /= 2)
      at += at[half - 1] <= key ? half : 0;
    return at - borders_.data();
  }

 private:
  std::vector<uint64_t> borders_;
};

// Calls use(range, rows, n_rows) for each range, with its rows in order, which it may overwrite;
// key_of(row) is the key of a row of [0, n). There are ranges_for(n) ranges; several are used at a
// time. Returns the memory of the rows.
using UseRange = std::function<void(int64_t range, KeyRow* rows, int64_t n_rows)>;

template <class KeyOf>
std::unique_ptr<KeyRow[]> sort_by_key(int64_t n, int n_threads, const KeyOf& key_of,
                                      const UseRange& use) {
  const int64_t n_ranges = ranges_for(n), n_blocks = blocks_of(n, ROW_BLOCK);
  const RangeBorders borders(n, n_ranges, key_of);
  std::unique_ptr<KeyRow[]> rows(new KeyRow[n]);
  std::unique_ptr<uint8_t[]> range_of(new uint8_t[n]);
  std::vector<int64_t> places(n_blocks * n_ranges);  // of each block: rows of each range
  parallel_rows(n, n_threads, [&](int64_t begin, int64_t end) {
    int64_t* mine = &places[begin / ROW_BLOCK * n_ranges];
    for (int64_t i = begin; i < end; ++i) {
      range_of[i] = static_cast<uint8_t>(borders.range_of(key_of(i)));
      ++mine[range_of[i]];
    }
  });
  std::vector<int64_t> first{0};
  int64_t next = 0;
  for (int64_t r = 0; r < n_ranges; ++r) {
    for (int64_t b = 0; b < n_blocks; ++b) {
      const int64_t here = places[b * n_ranges + r];
      places[b * n_ranges + r] = next;
      next += here;
    }
    first.push_back(next);
  }
  parallel_rows(n, n_threads, [&](int64_t begin, int64_t end) {
    int64_t* mine = &places[begin / ROW_BLOCK * n_ranges];
    for (int64_t i = begin; i < end; ++i)
      rows[mine[range_of[i]]++] = {key_of(i), static_cast<uint64_t>(i)};
  });
  parallel_tasks(n_ranges, threads_for_rows(n, n_threads), [&](int64_t r) {
    thread_local std::vector<KeyRow> other;
    const int64_t n_rows = first[r + 1] - first[r];
    other.resize(std::max<size_t>(other.size(), n_rows));
    sort_keys(&rows[first[r]], other.data(), n_rows, KeyOfRow{});
    use(r, &rows[first[r]], n_rows);
  });
  return rows;
}

}  // namespace bitgrove
