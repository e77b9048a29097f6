// Rows in the order of 64-bit keys, by all threads: rows are dealt to ranges of keys, and each
// range is sorted by one thread, digit by digit. Equal keys are always in one range.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/key_sort.h"
#include "common/parallel.h"

namespace bitgrove {

struct KeyRow {
  uint64_t key;
  uint32_t row;
};

struct KeyOrder {
  std::unique_ptr<KeyRow[]> rows;
  std::vector<int64_t> range;  // where each range of keys begins, and the end
};

constexpr int64_t RANGES_PER_THREAD = 4, MAX_RANGES = 256, SAMPLES_PER_RANGE = 32;

inline void sort_range(KeyRow* rows, KeyRow* other, int64_t n) {
  sort_keys(rows, other, n, [](const KeyRow& row) { return row.key; });
}

// The keys that divide all keys into about equal ranges: of an even sample.
template <class KeyOf>
std::vector<uint64_t> range_borders(int64_t n, int64_t n_ranges, KeyOf key_of) {
  std::vector<uint64_t> sample(n_ranges * SAMPLES_PER_RANGE), borders;
  const auto n_samples = static_cast<int64_t>(sample.size());
  for (int64_t i = 0; i < n_samples; ++i) sample[i] = key_of(n * i / n_samples);
  std::sort(sample.begin(), sample.end());
  for (int64_t r = 1; r < n_ranges; ++r) borders.push_back(sample[r * SAMPLES_PER_RANGE]);
  return borders;
}

// key_of(row) for the rows [0, n), n below 2^32.
template <class KeyOf>
KeyOrder sort_by_key(int64_t n, int n_threads, KeyOf key_of) {
  n_threads = threads_for_rows(n, n_threads);
  std::unique_ptr<KeyRow[]> rows(new KeyRow[n]), other(new KeyRow[n]);
  if (n_threads == 1) {
    for (int64_t i = 0; i < n; ++i) rows[i] = {key_of(i), static_cast<uint32_t>(i)};
    sort_range(rows.get(), other.get(), n);
    return {std::move(rows), {0, n}};
  }
  const int64_t n_ranges = std::min(RANGES_PER_THREAD * n_threads, MAX_RANGES);
  const std::vector<uint64_t> borders = range_borders(n, n_ranges, key_of);
  const int64_t n_blocks = blocks_of(n, ROW_BLOCK);
  std::unique_ptr<uint8_t[]> range_of(new uint8_t[n]);
  std::vector<int64_t> places(n_blocks * n_ranges);  // of each block: rows of each range
  parallel_rows(n, n_threads, [&](int64_t begin, int64_t end) {
    int64_t* mine = &places[begin / ROW_BLOCK * n_ranges];
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t key = key_of(i);
      const auto above = std::upper_bound(borders.begin(), borders.end(), key);
      range_of[i] = static_cast<uint8_t>(above - borders.begin());
      rows[i] = {key, static_cast<uint32_t>(i)};
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
    for (int64_t i = begin; i < end; ++i) other[mine[range_of[i]]++] = rows[i];
  });
  parallel_tasks(n_ranges, n_threads, [&](int64_t r) {
    sort_range(&other[first[r]], &rows[first[r]], first[r + 1] - first[r]);
  });
  return {std::move(other), std::move(first)};
}

}  // namespace bitgrove
