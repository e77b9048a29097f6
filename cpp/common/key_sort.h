// Sorts unsigned integers: three passes over their highest digits, then what is left.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace bitgrove {

constexpr int SORT_DIGIT_BITS = 11;
constexpr int SORT_DIGITS = 1 << SORT_DIGIT_BITS;
constexpr int SORT_PASSES = 3;
constexpr int SORT_BITS = SORT_PASSES * SORT_DIGIT_BITS;
// Fewer keys than this take less time by comparing.
constexpr int64_t LEAST_KEYS_FOR_DIGITS = 512;
constexpr int64_t MOST_KEYS_TO_INSERT = 32;

// One stable pass by the digit at `shift` of key - least.
template <class Key>
void sort_by_digit(const Key* from, Key* to, int64_t n, Key least, int shift, int32_t* place) {
  for (int64_t i = 0; i < n; ++i)
    to[place[(from[i] - least) >> shift & (SORT_DIGITS - 1)]++] = from[i];
}

// What is left when keys are in the order of their digits, which are those above `rest` bits.
template <class Key>
void sort_within_digits(Key* keys, int64_t n, Key least, int rest) {
  for (int64_t begin = 0, end; begin < n; begin = end) {
    const Key digits = (keys[begin] - least) >> rest;
    for (end = begin + 1; end < n && (keys[end] - least) >> rest == digits; ++end) {
      if (end - begin >= MOST_KEYS_TO_INSERT) continue;
      const Key key = keys[end];
      int64_t at = end;
      for (; at > begin && keys[at - 1] > key; --at) keys[at] = keys[at - 1];
      keys[at] = key;
    }
    if (end - begin > MOST_KEYS_TO_INSERT) std::sort(keys + begin, keys + end);
  }
}

// Sorts keys, with room for as many in `other`. The digits are the highest of the range that the
// keys really have; keys that are equal in them are few, and compared.
template <class Key>
void sort_keys(Key* keys, Key* other, int64_t n) {
  if (n < LEAST_KEYS_FOR_DIGITS) return std::sort(keys, keys + n);
  Key least = 0;
  int rest = 0;
  if constexpr (sizeof(Key) * 8 > SORT_BITS) {
    Key most = least = keys[0];
    for (int64_t i = 1; i < n; ++i) {
      least = std::min(least, keys[i]);
      most = std::max(most, keys[i]);
    }
    rest = std::max(0, static_cast<int>(std::bit_width(most - least)) - SORT_BITS);
  }
  int32_t counts[SORT_PASSES][SORT_DIGITS] = {};
  for (int64_t i = 0; i < n; ++i) {
    const Key key = (keys[i] - least) >> rest;
    for (int p = 0; p < SORT_PASSES; ++p)
      ++counts[p][key >> (p * SORT_DIGIT_BITS) & (SORT_DIGITS - 1)];
  }
  Key *from = keys, *to = other;
  for (int p = 0; p < SORT_PASSES; ++p) {
    int32_t* count = counts[p];
    if (*std::max_element(count, count + SORT_DIGITS) == n) continue;
    for (int32_t d = 0, before = 0; d < SORT_DIGITS; ++d) before += std::exchange(count[d], before);
    sort_by_digit(from, to, n, least, rest + p * SORT_DIGIT_BITS, count);
    std::swap(from, to);
  }
  if (from != keys) std::copy_n(from, n, keys);
  if (rest == 0) return;
  sort_within_digits(keys, n, least, rest);
}

}  // namespace bitgrove
