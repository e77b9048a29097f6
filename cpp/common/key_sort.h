// Sorts by unsigned integers: three passes over their highest digits, then what is left.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace bitgrove {

constexpr int SORT_DIGIT_BITS = 11;
constexpr int SORT_DIGITS = 1 << SORT_DIGIT_BITS;
constexpr int SORT_PASSES = 3;
constexpr int SORT_BITS = SORT_PASSES * SORT_DIGIT_BITS;
// Fewer keys than this take less time by comparing.
constexpr int64_t LEAST_KEYS_FOR_DIGITS = 512;
constexpr int64_t MOST_KEYS_TO_INSERT = 32;

// The same type for all sorts of such items: they share their code.
template <class KeyOf>
struct LessByKey {
  KeyOf key_of;
  template <class Item>
  bool operator()(const Item& a, const Item& b) const {
    return key_of(a) < key_of(b);
  }
};

struct ItselfAsKey {
  template <class Key>
  Key operator()(Key key) const {
    return key;
  }
};

// What is left when items are in the order of their digits, which are those above `rest` bits.
template <class Item, class Key, class KeyOf>
void sort_within_digits(Item* items, int64_t n, KeyOf key_of, Key least, int rest) {
  const LessByKey<KeyOf> less{key_of};
  for (int64_t begin = 0, end; begin < n; begin = end) {
    const auto digits = (key_of(items[begin]) - least) >> rest;
    for (end = begin + 1; end < n && (key_of(items[end]) - least) >> rest == digits; ++end) {
      if (end - begin >= MOST_KEYS_TO_INSERT) continue;
      const Item item = items[end];
      int64_t at = end;
      for (; at > begin && less(item, items[at - 1]); --at) items[at] = items[at - 1];
      items[at] = item;
    }
    // Equal keys, such as the zeros of a count, are many.
    if (end - begin > MOST_KEYS_TO_INSERT && !std::is_sorted(items + begin, items + end, less))
      std::sort(items + begin, items + end, less);
  }
}

// Sorts items, one at least, by the digits of their keys, with room for as many in `other`. The
// digits are the highest of the range that the keys really have; items that are equal in them are
// few, and compared. Equal keys of up to SORT_BITS stay in their order.
template <class Item, class KeyOf>
void sort_by_digits(Item* items, Item* other, int64_t n, KeyOf key_of) {
  using Key = std::decay_t<decltype(key_of(*items))>;
  Key least = 0;
  int rest = 0;
  if constexpr (sizeof(Key) * 8 > SORT_BITS) {
    Key most = least = key_of(items[0]);
    for (int64_t i = 1; i < n; ++i) {
      least = std::min(least, key_of(items[i]));
      most = std::max(most, key_of(items[i]));
    }
    if (most == least) return;
    rest = std::max(0, static_cast<int>(std::bit_width(most - least)) - SORT_BITS);
  }
  const auto digit = [&](const Item& item, int pass) {
    return (key_of(item) - least) >> (rest + pass * SORT_DIGIT_BITS) & (SORT_DIGITS - 1);
  };
  int32_t counts[SORT_PASSES][SORT_DIGITS] = {};
  for (int64_t i = 0; i < n; ++i)
    for (int p = 0; p < SORT_PASSES; ++p) ++counts[p][digit(items[i], p)];
  Item *from = items, *to = other;
  for (int p = 0; p < SORT_PASSES; ++p) {
    int32_t* place = counts[p];
    if (*std::max_element(place, place + SORT_DIGITS) == n) continue;
    for (int32_t d = 0, before = 0; d < SORT_DIGITS; ++d) before += std::exchange(place[d], before);
    for (int64_t i = 0; i < n; ++i) to[place[digit(from[i], p)]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::copy_n(from, n, items);
  if constexpr (sizeof(Key) * 8 > SORT_BITS)
    if (rest > 0) sort_within_digits(items, n, key_of, least, rest);
}

template <class Item, class KeyOf = ItselfAsKey>
void sort_keys(Item* items, Item* other, int64_t n, KeyOf key_of = {}) {
  if (n < LEAST_KEYS_FOR_DIGITS)
    std::sort(items, items + n, LessByKey<KeyOf>{key_of});
  else
    sort_by_digits(items, other, n, key_of);
}

}  // namespace bitgrove
