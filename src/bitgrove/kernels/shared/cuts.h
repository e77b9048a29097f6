// Where a feature is cut into bins: order-preserving keys of values, and the rule of the cuts.
//
// The rule reads a sorted sample at a few hundred places only. It is written for a team of threads
// that share the work: one thread on the CPU, a block on a GPU.
#pragma once

#include "math.h"

namespace bitgrove {

// A value's bits as an integer of the same order: one zero, not two, and every NaN last.
template <class Key>
struct KeyBits;
template <>
struct KeyBits<uint32_t> {
  static constexpr uint32_t sign = 0x80000000u, infinity = 0x7F800000u;
};
template <>
struct KeyBits<uint64_t> {
  static constexpr uint64_t sign = 0x8000000000000000ull, infinity = 0x7FF0000000000000ull;
};

template <class Key>
constexpr Key MISSING_KEY = static_cast<Key>(~Key{0});

template <class Key>
BG_FN Key key_of_bits(Key bits) {
  constexpr Key sign = KeyBits<Key>::sign;
  const Key magnitude = bits & ~sign;
  if (magnitude > KeyBits<Key>::infinity) return MISSING_KEY<Key>;
  return bits & sign ? (magnitude == 0 ? sign : ~bits) : bits | sign;
}

template <class Key>
BG_FN Key bits_of_key(Key key) {
  constexpr Key sign = KeyBits<Key>::sign;
  return key & sign ? key ^ sign : ~key;
}

BG_FN double value_of_key(uint64_t key) {
  return double_of_bits(static_cast<int64_t>(bits_of_key(key)));
}

// The float's value in double, from its bits: no conversion that could flush denormals.
BG_FN double value_of_key(uint32_t key) {
  const uint32_t bits = bits_of_key(key), magnitude = bits & 0x7FFFFFFFu;
  double value = static_cast<double>(magnitude) * 1.401298464324817e-45;  // a denormal: 2^-149
  if (magnitude >= 0x00800000u) {
    const int64_t exponent = magnitude >= 0x7F800000u ? 0x7FF : (magnitude >> 23) + (1023 - 127);
    value = double_of_bits(exponent << 52 | static_cast<int64_t>(magnitude & 0x007FFFFFu) << 29);
  }
  return bits & 0x80000000u ? -value : value;
}

// A number e with low <= e < high: the middle, or low where the middle rounds away.
BG_FN double between(double low, double high) {
  const double middle = low * 0.5 + high * 0.5;
  return low <= middle && middle < high ? middle : low;
}

// Of one feature; a team shares it. Places are positions in the sorted sample.
struct CutWork {
  int32_t ends[BINS_PER_FEATURE];  // where bins end: the first row of the next
  int32_t groups[BINS_PER_FEATURE];
  // Heavy values: their rows are [begin, end), after so many rows of light values.
  int32_t heavy_begin[BINS_PER_FEATURE], heavy_end[BINS_PER_FEATURE];
  int32_t light_before[BINS_PER_FEATURE];
  int32_t n_ends, n_heavy, n_light, n_groups;
};

// max_bin: from 2 to BINS_PER_FEATURE - 1. Team: lane, size and sync() of the threads at work.
// Keys: the sorted sample; anything with [].
template <class Key, class Team, class Keys = const Key*>
struct Cutter {
  Keys keys;
  int32_t n_rows, max_bin;
  CutWork& work;
  Team team;

  // The first place in [low, high) whose key is above the given one, or high.
  BG_FN int32_t first_above(Key key, int32_t low, int32_t high) const {
    while (low < high) {
      const int32_t middle = low + (high - low) / 2;
      if (keys[middle] > key)
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }

  // Where the run of equal keys ends: most runs are short, so steps grow from one.
  BG_FN int32_t run_end(int32_t at) const {
    const Key key = keys[at];
    int32_t low = at + 1;
    for (int64_t step = 1; low + step <= n_rows && keys[low + step - 1] == key; step *= 2)
      low += static_cast<int32_t>(step);
    const int32_t reach = low - at, left = n_rows - low;  // the step that failed was as long
    return first_above(key, low, low + (left < reach ? left : reach));
  }

  BG_FN int32_t run_begin(int32_t at) const {
    const Key key = keys[at];
    return key == 0 ? 0 : first_above(key - 1, 0, at);
  }

  // Every value a bin of its own; false if there are more than max_bin of them.
  BG_FN bool cut_few() {
    if (team.lane == 0) {
      work.n_ends = 0;
      for (int32_t at = 0; at < n_rows && (at = run_end(at)) < n_rows;) {
        if (work.n_ends == max_bin - 1) {
          work.n_ends = -1;
          break;
        }
        work.ends[work.n_ends++] = at;
      }
    }
    team.sync();
    return work.n_ends >= 0;
  }

  // Values with at least n_rows / max_bin rows: one of every so many places is theirs.
  BG_FN void find_heavy() {
    const int32_t least = (n_rows - 1) / max_bin + 1;
    for (int32_t k = team.lane; k < max_bin; k += team.size) {
      const int64_t at = static_cast<int64_t>(k) * least;
      work.heavy_begin[k] = -1;
      if (at >= n_rows) continue;
      const int32_t begin = run_begin(static_cast<int32_t>(at));
      const int32_t end = run_end(static_cast<int32_t>(at));
      if (end - begin < least || begin <= at - least) continue;  // light, or found before
      work.heavy_begin[k] = begin;
      work.heavy_end[k] = end;
    }
    team.sync();
    if (team.lane == 0) {
      int32_t n_heavy = 0, n_heavy_rows = 0;
      for (int32_t k = 0; k < max_bin; ++k) {
        const int32_t begin = work.heavy_begin[k], end = work.heavy_end[k];
        if (begin < 0) continue;
        work.heavy_begin[n_heavy] = begin;
        work.heavy_end[n_heavy] = end;
        work.light_before[n_heavy++] = begin - n_heavy_rows;
        n_heavy_rows += end - begin;
      }
      work.n_heavy = n_heavy;
      work.n_light = n_rows - n_heavy_rows;
      work.n_groups = max_bin - n_heavy;
    }
    team.sync();
  }

  // The place of a row that is counted among the light ones only.
  BG_FN int32_t place_of_light(int32_t row) const {
    int32_t low = 0, high = work.n_heavy;  // how many heavy values are before it
    while (low < high) {
      const int32_t middle = (low + high) / 2;
      if (work.light_before[middle] <= row)
        low = middle + 1;
      else
        high = middle;
    }
    return low == 0 ? row : row + work.heavy_end[low - 1] - work.light_before[low - 1];
  }

  // Equal shares of the light rows: where the value ends that holds the last row of each.
  BG_FN void find_groups() {
    const int64_t n_groups = work.n_groups, n_light = work.n_light;
    for (int64_t g = team.lane; g < n_groups; g += team.size) {
      const int64_t n_below = ((g + 1) * n_light + n_groups - 1) / n_groups;
      work.groups[g] = run_end(place_of_light(static_cast<int32_t>(n_below - 1)));
    }
    team.sync();
  }

  BG_FN void add_end(int32_t at) {
    if (at <= 0 || at >= n_rows) return;
    if (work.n_ends > 0 && work.ends[(work.n_ends - 1) % BINS_PER_FEATURE] == at) return;
    work.ends[work.n_ends++ % BINS_PER_FEATURE] = at;  // too many are only counted
  }

  // The ends of groups and both sides of heavy values, in order, each once.
  BG_FN void merge_ends() {
    if (team.lane == 0) {
      work.n_ends = 0;
      int32_t g = 0;
      for (int32_t k = 0; k < 2 * work.n_heavy; ++k) {
        const int32_t side = k % 2 ? work.heavy_end[k / 2] : work.heavy_begin[k / 2];
        for (; g < work.n_groups && work.groups[g] <= side; ++g) add_end(work.groups[g]);
        add_end(side);
      }
      for (; g < work.n_groups; ++g) add_end(work.groups[g]);
    }
    team.sync();
  }

  // Heavy values alone, the rest in equal shares; fewer of them until there are max_bin bins.
  BG_FN void cut_many() {
    find_heavy();
    while (work.n_groups > 0 && work.n_light > 0) {
      find_groups();
      merge_ends();
      const int32_t excess = work.n_ends + 1 - max_bin;
      if (excess <= 0) return;
      team.sync();
      if (team.lane == 0) work.n_groups -= excess;
      team.sync();
    }
    team.sync();
    if (team.lane == 0) {  // too many heavy values: shares of all rows
      work.n_heavy = 0;
      work.n_light = n_rows;
      work.n_groups = max_bin;
    }
    team.sync();
    find_groups();
    merge_ends();
  }

  // Fills at most max_bin - 1 increasing edges; returns their number.
  BG_FN int32_t cut(double* edges) {
    // Missing values are last: they are not cut.
    n_rows = first_above(MISSING_KEY<Key> - 1, 0, n_rows);
    if (!cut_few()) cut_many();
    for (int32_t e = team.lane; e < work.n_ends; e += team.size)
      edges[e] = between(value_of_key(keys[work.ends[e] - 1]), value_of_key(keys[work.ends[e]]));
    return work.n_ends;
  }
};

}  // namespace bitgrove
