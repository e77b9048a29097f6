// The bookkeeping of one growing tree: nodes, the best-first replay, and histogram slots.
//
// Holds no rows and no sums of features: it is told what the backend found and says what to do
// next, as plans (plans.h). The CPU, the GPU and all ranks use this same code.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "growth.h"
#include "growth/node_rules.h"
#include "plans.h"

namespace bitgrove {

// Widths the planner (histograms.py) proved safe: the most rows each width can take, whichever
// they are; and of a local width, how many rows fill it that are like most.
struct WidthLimits {
  std::array<int64_t, 3> total_rows;                 // 16, 32, 64 bits
  std::array<int64_t, 4> local_rows, usual_rows;     // 8, 16, 32, 64 bits
  int64_t block_rows, least_block_rows, least_rows;  // least_rows: of those that surely fit

  int total_width(int64_t n_rows) const;
  // (width, rows per block) of the accumulators that feed a total.
  std::pair<int, int64_t> local(int64_t n_rows, int total_width) const;
};

constexpr SplitInfo NO_SPLIT{-std::numeric_limits<double>::infinity(), 0, 0, -1, 0, 0, 0, {}};

struct FrontierNode {
  int64_t begin;    // this rank's rows start here
  RowCounts local;  // this rank's rows
  RowCounts all;    // all ranks' rows
  int64_t depth, grad, hess;
  uint64_t key;  // of what is drawn
  int width;
  int slot = -1;
  int first_child = -1;  // the right child follows the left one
  SplitInfo split;
  double least_gain;  // on the way from the root to this node's split; it decides when it is taken
};

// Steps of a plan that hang together: a build, the subtraction that needs it, the nodes that are
// searched then. Their numbers in the plan; -1 where there is no such step.
struct PlanPart {
  int build, subtraction, first_node, last_node;
};

// Some of the tree's rows, as they are listed.
struct NodeRange {
  int64_t begin, end;
};

// One batch of histograms: what to build, what to subtract then, which nodes to search.
struct SearchPlan {
  std::vector<Build> builds;
  std::vector<Subtraction> subtractions;
  std::vector<SearchNode> nodes;
  std::vector<NodeRange> rows;   // of each node, this rank's active ones
  std::vector<uint8_t> allowed;  // features, a row of flags for each node; empty: as the tree's
  std::vector<PlanPart> parts;
};

class Frontier {
 public:
  // one_width: sums stay as wide as their parent's. key: of what is drawn for the root.
  // node_rules: for a training that has some.
  Frontier(int n_slots, bool one_width, GrowthRules rules, WidthLimits widths, uint64_t key,
           std::optional<NodeRules> node_rules);

  void start(int64_t grad, int64_t hess, RowCounts all, RowCounts local);
  // Nodes to divide next: the first ceil(alpha * pending) by least gain; empty when done.
  const std::vector<int>& next_batch(double alpha);
  // How to divide the nodes of the batch; missing_bin: of every feature.
  std::vector<Division> divisions(const int64_t* missing_bin) const;
  // Where the smaller child of each node of the batch will be built, if its parent still has a
  // histogram and slots are free; none is in use now.
  std::vector<int> next_slots() const;
  // The rows gone left of each node of the batch: on this rank and on all.
  void divide(const RowCounts* local_left, const RowCounts* all_left);
  // Fills the next plan of at most n_slots / 2 pairs; false when every child is known.
  bool next_search(SearchPlan& plan);
  void record(const SplitInfo* found);
  // The next nodes, from the root on, of a tree that a device grows on its own. It may stop
  // anywhere: what it has no histogram of is built again.
  void adopt(std::span<const FoundNode> found);
  void count_rounds(int64_t n_rounds) { n_rounds_ += static_cast<int>(n_rounds); }

  const GrowthRules& rules() const { return rules_; }
  const WidthLimits& widths() const { return widths_; }
  const std::vector<FrontierNode>& nodes() const { return nodes_; }
  const std::optional<NodeRules>& node_rules() const { return node_rules_; }
  // Nodes split by best-first growth, in order; complete once next_batch is empty.
  const std::vector<int>& taken() const { return taken_; }
  int n_rounds() const { return n_rounds_; }
  const std::array<int64_t, 4>& widths_used() const { return widths_used_; }
  size_t n_batch() const { return batch_.size(); }
  size_t n_searched() const { return searched_.size(); }

 private:
  // Both children of a node; or a node alone, without a parent: the root, or one whose bounds
  // moved.
  struct Pair {
    int parent, small, large;
  };

  void replay();
  void choose_pending();
  void take_best_leaf();
  int find_last_split() const;
  bool searchable(const FrontierNode& node) const;
  int add_children(int parent, RowCounts local_left, RowCounts all_left);
  void take_in(int node, const SplitInfo& found);
  void count_build(int64_t n_rows, int width);
  int add_child(int64_t begin, RowCounts local, RowCounts all, int64_t depth, int64_t grad,
                int64_t hess, uint64_t key);
  void make_room(size_t n_needed, const Pair* first, const Pair* last);
  size_t slots_needed(const Pair* first, const Pair* last) const;
  void plan_pair(const Pair& pair, SearchPlan& plan);
  void plan_subtraction(const Pair& pair, SearchPlan& plan);
  void plan_build(int node, SearchPlan& plan);
  // sibling: the slot whose sums are taken away from the parent's first, or -1.
  void plan_search(int node, int sibling, SearchPlan& plan);
  void take_slot(int node);
  void release(int node);

  GrowthRules rules_;
  WidthLimits widths_;
  int n_slots_;
  bool one_width_;
  uint64_t key_;
  std::optional<NodeRules> node_rules_;
  std::vector<FrontierNode> nodes_;
  std::vector<int> free_, batch_, taken_, pending_, searched_, temporary_;
  struct Known {
    double least_gain;
    int node;
  };
  std::vector<Known> known_;  // splits that may still be taken
  size_t n_ordered_ = 0;      // of them, at the front: by least gain, as far as it was asked for
  std::vector<Pair> pairs_;
  size_t next_pair_ = 0;
  size_t n_spare_ = 0;  // slots that the pairs of this plan do not need
  int n_rounds_ = 0, n_adopted_ = 0;
  std::array<int64_t, 4> widths_used_{};
};

}  // namespace bitgrove
