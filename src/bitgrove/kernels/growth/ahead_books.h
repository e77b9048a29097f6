// A tree that a GPU grows ahead of the host: its books on the device, which ahead.cu keeps.
//
// The device decides for itself which nodes come next, and so needs no word from the host between
// two rounds. It need not decide well: the frontier, which follows and is told all nodes that were
// found, says when the tree is complete, and grows what is missing.
#pragma once

#include "blocking.h"
#include "growth.h"

namespace bitgrove {

// parent: -1 of the root; found: where its split is, -1 if it is not searched.
struct AheadNode {
  int64_t begin, n_rows;
  GradientSums sums;
  uint64_t key;
  int32_t depth, slot, parent, found;
};

// A node that is searched, or was chosen to be divided; least_gain and rank: of the last split on
// its way from the root, as in KnownSplit.
struct AheadStep {
  double least_gain;
  int32_t node, rank;
};

// A split that best-first growth takes, as far as is known; its rank says when. least_gain: of the
// splits on the way from the root to it.
struct KnownSplit {
  double gain, least_gain;
  int32_t node, is_divided;
};

// Nodes: made, known to be complete, told to the host; slots in use; splits that were found; those
// in `known` below.
struct AheadState {
  int32_t n_nodes, n_complete, n_told, n_slots, n_found, n_known, n_rounds, is_done;
};

struct AheadRules {
  GrowthRules growth;
  double alpha;
  int64_t most_nodes, most_batch, n_slots, slot_size, n_features, n_tiles, n_processors;
  int64_t words, most_block_rows;  // of the histograms in shared memory
};

// Where the books are. `told` and `progress` are in the host's memory, the rest on the device.
struct AheadBooks {
  AheadRules* rules;
  AheadState* state;
  AheadNode* nodes;
  SplitInfo* found;            // one after the other, round by round
  KnownSplit* known;           // by rank
  AheadStep *waiting, *batch;  // nodes that are searched; that are divided
  RoundSizes* sizes;           // these and the next six: the plan of the round
  Division* divisions;
  int64_t* first_division;
  int32_t* cleared;
  Build* builds;
  int64_t* first_build;
  SearchNode* searched;
  int64_t* left;  // rows gone left of each node of the batch
  const int64_t* missing_bin;
  FoundNode* told;
  uint64_t* progress;
};

struct AheadRoot {
  int64_t n_rows;
  GradientSums sums;
  uint64_t key;
};

// How far the device is, in one word: nodes that were told, rounds, and a bit when it has stopped.
constexpr int PROGRESS_ROUNDS = 32, PROGRESS_DONE = 63;

// Nodes of a tree on the way.
constexpr int MOST_AHEAD_NODES = 4096;
// Blocks that plan the children and tell the host, before those that place rows.
constexpr int BOOK_BLOCKS = 2;

}  // namespace bitgrove
