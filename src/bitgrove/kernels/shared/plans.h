// What crosses between Python, the core and the kernels: the records of a tree's work.
//
// Python gets them as NumPy dtypes (bitgrove._core.dtypes(), made in cpp/bindings/records.cpp) and
// names their fields. The constants that a host and its kernels must agree on are here, too.
#pragma once

#include "layouts.h"

namespace bitgrove {

// Rows whose integers are both zero come last in a node: they add nothing to a histogram.
struct RowCounts {
  int64_t active, zero;

  BG_FN int64_t both() const { return active + zero; }
  BG_FN RowCounts operator-(RowCounts other) const {
    return {active - other.active, zero - other.zero};
  }
};

// Sums of integers over rows: of a leaf, or of all rows of a tree.
struct GradientSums {
  int64_t grad, hess;
};

// What rounding found of a tree's rows: the width planner needs it, the root's sums, and how far
// the rounding of the gradients went. The last two stay 0 in rows of 32 bits a half (full
// precision): their squares would not fit, and there is next to no rounding.
struct RowTotals {
  int64_t abs_grad, grad, hess, zero_rows;
  int64_t squared_grad;   // of the integers
  int64_t squared_error;  // integer minus value, in 1 / SQUARED_ERROR_UNITS
};

constexpr int SQUARED_ERROR_UNITS = 65536;

// What a scale must know of one output's gradients and hessians, before they are rounded: the bit
// patterns of the largest |grad| and hess (infinities and NaN are above all numbers), how many are
// not zero, and the sums of all patterns >> MAGNITUDE_SHIFT. Those are nearly logarithms: their
// mean is about that of the geometric mean, in integers.
struct Magnitudes {
  int64_t grad_logs, hess_logs, grad_rows, hess_rows;
  uint32_t grad_top, hess_top;
};

// The exponent and three bits of the mantissa are left.
constexpr int MAGNITUDE_SHIFT = 20, MAGNITUDE_BUCKETS = 2048;

// How float gradients become integers: floor(x * inverse + noise), within the limit.
struct Rounding {
  double inverse_grad, inverse_hess, grad_limit, hess_limit;
  uint64_t key, first_row;  // of the noise; first_row is the id of the first row
  int64_t stochastic;       // 0: to the nearest
};

// Records that go to kernels, one kind after the other: behind an address, or, if they are short,
// in the launch itself, which takes less time than a copy. Parameters of a kernel have 4 KiB.
struct Plan {
  uint64_t address;  // 0: they are here
  alignas(16) uint8_t here[3584];

  template <class Record>
  BG_FN const Record* at(int64_t offset) const {
    const uint8_t* first = address == 0 ? here : reinterpret_cast<const uint8_t*>(address);
    return reinterpret_cast<const Record*>(first + offset);
  }
};

// Where kernels add up sums of 64 bits, and where the last of all their n_blocks blocks tells them
// to the host: the mark first.
struct AnswerPlace {
  uint64_t sums, n_done, told;  // addresses
  int64_t n_words, n_blocks;
};

// What the bins of a column are: numbers, of which every cut is looked at; levels without an order;
// numbers that are noisy, of which each node looks at one drawn cut (sampling.h).
constexpr uint8_t NUMBERS = 0, LEVELS = 1, DRAWN = 2;

// Some bins of a feature, one bit each.
struct BinSet {
  uint64_t words[BINS_PER_FEATURE / 64];

  BG_FN bool holds(int bin) const { return words[bin >> 6] >> (bin & 63) & 1; }
  BG_FN void add(int bin) { words[bin >> 6] |= uint64_t{1} << (bin & 63); }
};

// `bin` of a split by a subset of levels: the bins of its set go left, the missing one like others.
constexpr int SUBSET = -1;

// Divide the rows [begin, end) of a node by its split; those from first_zero on are zero rows.
struct Division {
  int64_t begin, first_zero, end;
  int32_t feature, bin, missing_bin, default_left;
  BinSet left_bins;  // where bin is SUBSET
};

// Sum the rows [begin, end) into a slot, in blocks of block_rows whose sums fit local_width bits
// per half; the slot's own sums have total_width.
struct Build {
  int64_t begin, end, block_rows;
  int32_t slot, local_width, total_width, reserved;
};

// The parent's sums less the built child's are the sibling's histogram, in out_width bits per half.
// out_slot is the parent's own, but for sums that become narrower: those would be written over bins
// that other threads still have to read.
struct Subtraction {
  int32_t parent_slot, built_slot, out_slot, parent_width, built_width, out_width;
};

// Find the best split of the node in a slot; both children need a hessian of at least min_hess.
// hess_per_row: the mean over the node's rows; it turns counts of rows into shares of the hessian.
// sibling: the slot whose sums the plan takes away from its parent's, or -1; a GPU, where the
// parent's slot is this one, does it on the way. key: of what is drawn for it. The rest is for
// trainings with rules (rules.h): the bounds of the children's outputs, and the node's own output.
struct SearchNode {
  int32_t slot, width, sibling, reserved;
  double grad, hess, min_hess, hess_per_row;
  double lower, upper, output;
  uint64_t key;
};

// The best split of a node, in integers; feature is -1 where there is none.
// ready: a device sets it to 1 after everything else is written.
struct SplitInfo {
  double gain;
  int64_t left_grad, left_hess;
  int32_t feature, bin, default_left, ready;
  BinSet left_bins;  // where bin is SUBSET
};

// A split of a grown tree. Children: >= 0 is a split, < 0 is ~leaf. rows and hess are the node's;
// the set of a split by a subset lies beside it.
struct GrownSplit {
  double threshold, gain, hess;
  int64_t rows;
  int32_t feature, left, right;
  uint8_t bin, default_left, by_subset, reserved;
};

// The bins [first_bin, last_bin) of a slot that go into a message, or are added from one.
struct HistogramPart {
  int64_t first_bin, last_bin;
  int32_t slot, width, message, reserved;
};

// One split of a tree as binned rows walk it. Children: >= 0 is a split, < 0 is ~leaf. The sets of
// splits by subsets lie beside them.
struct BinnedSplit {
  int32_t feature, left, right;
  uint8_t bin, missing_bin, default_left, by_subset;
};

// One split of a forest as raw rows walk it on a GPU; the top bit of `feature`: missing goes left,
// the one below it: the row goes left if its level is in the set of that number.
struct ForestSplit {
  double threshold;
  uint32_t feature;
  int32_t left, right, set;
};

constexpr uint32_t DEFAULT_LEFT_BIT = 0x80000000u, SUBSET_BIT = 0x40000000u;
constexpr uint32_t FEATURE_BITS = SUBSET_BIT - 1;

// One step of a walk that explains a tree (shap.h): along an edge, down (into a leaf: down and up
// again) or, SHAP_LEAVE, up. `player` is the feature that it counts for; `depth` is that of the
// edge's lower end, `previous` that of the edge above it with the same player, 0 if there is none.
// `share`: of the rows of the upper end, times the value in a leaf.
struct ShapStep {
  double threshold, share;
  int64_t first_factor;  // one for every point of the quadrature
  int64_t above;         // the step down the edge above it; -1 below the root
  uint32_t feature;      // with its bits, as in a ForestSplit
  int32_t set, player, depth, previous, kind;
};

// A split's first edge decides for both. The kinds are bits.
constexpr int SHAP_DECIDE = 1, SHAP_RIGHT = 2, SHAP_LEAF = 4, SHAP_LEAVE = 8;

// What an edge multiplies the path with at one point, and what its player gets of the leaves below:
// for rows on the path's way, and for those that leave it here. In a leaf: times its value.
struct ShapFactor {
  double on, off, gain_on, gain_off;
};

// One column of a table on a GPU: where it begins, the step from row to row (in values), and its
// feature.
struct DeviceColumn {
  int64_t address, stride, feature;
};

// Bins of some rows where kernels can read them: on the device, or in pinned memory of the host.
struct BinsPlace {
  uint64_t tiles, columns;  // addresses; columns 0: there are none
  int64_t n_rows;
};

// Bins of a table: its first rows are here, on the device; those that have no room are there.
struct PlacedBins {
  BinsPlace here, there;
};

// Threads of a block: of most kernels, of the partition, of the histograms (of full precision), of
// the pairs of a query, of the edges of a feature.
constexpr int THREADS = 256, PARTITION_THREADS = 512;
constexpr int BUILD_THREADS = 512, WIDE_BUILD_THREADS = 1024, RANK_THREADS = 128;
constexpr int EDGE_THREADS = 1024;
// Trees that a GPU grows ahead of the host (ahead_books.h) have one block that keeps their books: a
// thread for each node that is known or was just searched, and for each node of a batch.
constexpr int AHEAD_THREADS = 1024, MOST_BATCH = 256;
constexpr int MOST_AHEAD_LEAVES = AHEAD_THREADS - 2 * MOST_BATCH;
// Room of a row in the losses over queries: two sums, the hits down to its rank, and its place
// among the labels.
constexpr int RANK_SCRATCH = 4;
// Rows of a block of the partition, and features of a block of the search.
constexpr int PARTITION_ROWS = 4096, FEATURES_PER_BLOCK = 8;
// Rows of a block of the binning.
constexpr int BIN_ROWS = 2048;
// Shared memory of a histogram block: 32-bit words per bin of a tile.
constexpr int WORD_BYTES = BINS_PER_FEATURE * TILE_FEATURES * 4;

}  // namespace bitgrove
