// See frontier.h. Replaying over known gains makes batches of independent nodes out of best-first
// growth without changing the tree.
#include "growth/frontier.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "sampling.h"

namespace bitgrove {
namespace {

constexpr int TOTAL_WIDTHS[] = {16, 32, 64};
constexpr int LOCAL_WIDTHS[] = {8, 16, 32, 64};

// A node waiting in the replay; of equal gains the one that became known first goes first.
struct Waiting {
  double gain;
  int order, node;
  bool operator<(const Waiting& other) const {
    return gain != other.gain ? gain < other.gain : order > other.order;
  }
};

}  // namespace

int WidthLimits::total_width(int64_t n_rows) const {
  for (int i = 0; i < 2; ++i)
    if (n_rows <= total_rows[i]) return TOTAL_WIDTHS[i];
  return TOTAL_WIDTHS[2];
}

std::pair<int, int64_t> WidthLimits::local(int64_t n_rows, int total_width) const {
  int i = 0;
  while (LOCAL_WIDTHS[i] != total_width && (local_rows[i] < std::min(n_rows, least_rows) ||
                                            usual_rows[i] < std::min(n_rows, least_block_rows)))
    ++i;
  return {LOCAL_WIDTHS[i], std::max<int64_t>(1, std::min(local_rows[i], block_rows))};
}

Frontier::Frontier(int n_slots, bool one_width, GrowthRules rules, WidthLimits widths, uint64_t key,
                   std::optional<NodeRules> node_rules)
    : rules_(rules),
      widths_(widths),
      n_slots_(n_slots),
      one_width_(one_width),
      key_(key),
      node_rules_(std::move(node_rules)) {
  nodes_.reserve(4 * rules.num_leaves);
  for (int slot = n_slots - 1; slot >= 0; --slot) free_.push_back(slot);
}

int Frontier::add_child(int64_t begin, RowCounts local, RowCounts all, int64_t depth, int64_t grad,
                        int64_t hess, uint64_t key) {
  FrontierNode node{begin, local, all,      depth,
                    grad,  hess,  key,      widths_.total_width(all.active),
                    -1,    -1,    NO_SPLIT, INFINITY};
  nodes_.push_back(node);
  return static_cast<int>(nodes_.size()) - 1;
}

void Frontier::start(int64_t grad, int64_t hess, RowCounts all, RowCounts local) {
  pairs_.clear();
  next_pair_ = 0;
  add_child(0, local, all, 0, grad, hess, key_);
  if (node_rules_) node_rules_->start({grad, hess, all.both()});
  if (searchable(nodes_[0])) pairs_.push_back({-1, 0, -1});
}

void Frontier::replay() {
  taken_.clear();
  pending_.clear();
  std::vector<Waiting> heap;
  int order = 0;
  const auto push = [&](int node) {
    if (!(nodes_[node].split.gain > 0.0)) return;
    heap.push_back({nodes_[node].split.gain, order++, node});
    std::push_heap(heap.begin(), heap.end());
  };
  push(0);
  while (!heap.empty() && static_cast<int64_t>(taken_.size()) < rules_.num_leaves - 1) {
    std::pop_heap(heap.begin(), heap.end());
    const int node = heap.back().node;
    heap.pop_back();
    taken_.push_back(node);
    const int child = nodes_[node].first_child;
    if (child < 0) {
      pending_.push_back(node);
    } else {
      push(child);
      push(child + 1);
    }
  }
  // Nodes that no leaf was left for: later replays know more gains, never fewer, and leave them
  // too.
  for (const Waiting& left_over : heap) release(left_over.node);
}

// What a replay would take and has no children yet, without its order. Best-first growth takes all
// nodes of a larger least gain before any of a smaller one: while one is left, an ancestor or
// itself is waiting with a gain above all that the others must pass. Only a tie where leaves run
// out needs the replay; and the end, for the order.
void Frontier::choose_pending() {
  const auto by_least_gain = [](const Known& a, const Known& b) {
    return a.least_gain != b.least_gain ? a.least_gain > b.least_gain : a.node < b.node;
  };
  // What was known before is in order, but for new splits at the end.
  const auto first_new = known_.begin() + static_cast<std::ptrdiff_t>(n_ordered_);
  std::sort(first_new, known_.end(), by_least_gain);
  std::inplace_merge(known_.begin(), first_new, known_.end(), by_least_gain);
  const auto n_most = static_cast<size_t>(rules_.num_leaves - 1);
  if (known_.size() > n_most) {
    n_ordered_ = known_.size();
    if (known_[n_most - 1].least_gain == known_[n_most].least_gain) return replay();
    for (size_t i = n_most; i < known_.size(); ++i) release(known_[i].node);
    known_.resize(n_most);
  }
  n_ordered_ = known_.size();
  pending_.clear();
  for (const Known& known : known_)
    if (nodes_[known.node].first_child < 0) pending_.push_back(known.node);
  if (pending_.empty()) return replay();
}

// Where splits move the bounds of other leaves: the best one, of equals the one that is known
// longest.
void Frontier::take_best_leaf() {
  pending_.clear();
  if (static_cast<int64_t>(taken_.size()) >= rules_.num_leaves - 1) return;
  int best = -1;
  for (int id = 0; id < static_cast<int>(nodes_.size()); ++id) {
    const FrontierNode& node = nodes_[id];
    if (node.first_child < 0 && node.split.gain > (best < 0 ? 0.0 : nodes_[best].split.gain))
      best = id;
  }
  if (best < 0) return;
  taken_.push_back(best);
  pending_.push_back(best);
}

const std::vector<int>& Frontier::next_batch(double alpha) {
  ++n_rounds_;
  if (node_rules_ && node_rules_->moves_bounds())
    take_best_leaf();
  else
    choose_pending();
  const auto n_batch = static_cast<size_t>(std::ceil(alpha * static_cast<double>(pending_.size())));
  batch_.assign(pending_.begin(), pending_.begin() + std::min(n_batch, pending_.size()));
  return batch_;
}

std::vector<Division> Frontier::divisions(const int64_t* missing_bin) const {
  std::vector<Division> plan;
  for (int id : batch_) {
    const FrontierNode& node = nodes_[id];
    const SplitInfo& split = node.split;
    const int64_t first_zero = node.begin + node.local.active;
    plan.push_back({node.begin, first_zero, first_zero + node.local.zero, split.feature, split.bin,
                    static_cast<int32_t>(missing_bin[split.feature]), split.default_left,
                    split.left_bins});
  }
  return plan;
}

std::vector<int> Frontier::next_slots() const {
  const size_t n_slots = std::min(batch_.size(), free_.size());
  return {free_.rbegin(), free_.rbegin() + static_cast<std::ptrdiff_t>(n_slots)};
}

bool Frontier::searchable(const FrontierNode& node) const {
  return rules_.may_split(node.depth, node.all.both(), node.hess);
}

// Where all leaves but one are given out, the node of the least gain on its way comes last, and no
// leaf is left for its children: they need no histogram. -1 if there is none, or several alike.
int Frontier::find_last_split() const {
  if (node_rules_ && node_rules_->moves_bounds()) return -1;
  if (static_cast<int64_t>(known_.size()) != rules_.num_leaves - 1) return -1;
  const size_t n = known_.size();
  return n > 1 && known_[n - 2].least_gain == known_[n - 1].least_gain ? -1 : known_.back().node;
}

// The number of the left one.
int Frontier::add_children(int parent, RowCounts local_left, RowCounts all_left) {
  const FrontierNode node = nodes_[parent];
  const SplitInfo& split = node.split;
  const int left = add_child(node.begin, local_left, all_left, node.depth + 1, split.left_grad,
                             split.left_hess, child_key(node.key, 0));
  const int right = add_child(node.begin + local_left.both(), node.local - local_left,
                              node.all - all_left, node.depth + 1, node.grad - split.left_grad,
                              node.hess - split.left_hess, child_key(node.key, 1));
  nodes_[parent].first_child = left;
  nodes_[left].least_gain = nodes_[right].least_gain = node.least_gain;
  return left;
}

void Frontier::divide(const RowCounts* local_left, const RowCounts* all_left) {
  pairs_.clear();
  next_pair_ = 0;
  const int last_split = find_last_split();
  for (size_t i = 0; i < batch_.size(); ++i) {
    const int left = add_children(batch_[i], local_left[i], all_left[i]), right = left + 1;
    const SplitInfo& split = nodes_[batch_[i]].split;
    const auto sums = [&](int id) {
      return NodeSums{nodes_[id].grad, nodes_[id].hess, nodes_[id].all.both()};
    };
    if (node_rules_)
      for (int moved : node_rules_->divide(batch_[i], split, left, {sums(left), sums(right)})) {
        nodes_[moved].split = NO_SPLIT;
        if (searchable(nodes_[moved])) pairs_.push_back({-1, moved, -1});
      }
    if (batch_[i] == last_split) {
      release(last_split);
      continue;
    }
    const bool left_is_small = nodes_[left].all.active <= nodes_[right].all.active;
    pairs_.push_back({batch_[i], left_is_small ? left : right, left_is_small ? right : left});
  }
}

void Frontier::take_slot(int node) {
  nodes_[node].slot = free_.back();
  free_.pop_back();
}

void Frontier::release(int node) {
  if (nodes_[node].slot < 0) return;
  free_.push_back(nodes_[node].slot);
  nodes_[node].slot = -1;
}

// Evicts the least promising histograms; a node without one builds both children later.
void Frontier::make_room(size_t n_needed, const Pair* first, const Pair* last) {
  if (free_.size() >= n_needed) return;
  std::vector<int> cached;
  for (int node = 0; node < static_cast<int>(nodes_.size()); ++node)
    if (nodes_[node].slot >= 0 && std::none_of(first, last, [&](const Pair& p) {
          return p.parent == node || p.small == node;
        }))
      cached.push_back(node);
  std::stable_sort(cached.begin(), cached.end(),
                   [&](int a, int b) { return nodes_[a].split.gain < nodes_[b].split.gain; });
  for (size_t i = 0; i < cached.size() && free_.size() < n_needed; ++i) release(cached[i]);
}

// At most: a larger child has its parent's slot, if the parent still has one.
size_t Frontier::slots_needed(const Pair* first, const Pair* last) const {
  size_t n_slots = 0;
  for (const Pair* pair = first; pair != last; ++pair)
    n_slots += pair->parent >= 0 && nodes_[pair->parent].slot < 0 ? 2 : 1;
  return n_slots;
}

void Frontier::plan_build(int node, SearchPlan& plan) {
  const FrontierNode& n = nodes_[node];
  const int64_t n_rows = n.local.active;
  const auto [local_width, block_rows] = widths_.local(n_rows, n.width);
  plan.builds.push_back({n.begin, n.begin + n_rows, block_rows, n.slot, local_width, n.width, 0});
  count_build(n_rows, n.width);
}

void Frontier::count_build(int64_t n_rows, int width) {
  const int local_width = widths_.local(n_rows, width).first;
  ++widths_used_[std::find(std::begin(LOCAL_WIDTHS), std::end(LOCAL_WIDTHS), local_width) -
                 LOCAL_WIDTHS];
}

void Frontier::plan_search(int node, int sibling, SearchPlan& plan) {
  const FrontierNode& n = nodes_[node];
  searched_.push_back(node);
  plan.nodes.push_back(search_node(rules_, {n.grad, n.hess}, n.all.both(), n.key));
  plan.rows.push_back({n.begin, n.begin + n.local.active});
  plan.nodes.back().slot = n.slot;
  plan.nodes.back().width = n.width;
  plan.nodes.back().sibling = sibling;
  if (node_rules_) node_rules_->describe(node, plan.nodes.back(), plan.allowed);
}

// The larger child takes its parent's slot; sums that become narrower take another one, or stay as
// wide where none can be spared.
void Frontier::plan_subtraction(const Pair& pair, SearchPlan& plan) {
  FrontierNode &parent = nodes_[pair.parent], &small = nodes_[pair.small],
               &large = nodes_[pair.large];
  take_slot(pair.small);
  if (n_spare_ == 0) large.width = parent.width;
  const int parent_slot = parent.slot;
  if (large.width < parent.width) {
    --n_spare_;
    take_slot(pair.large);
    temporary_.push_back(pair.parent);
  } else {
    large.slot = parent_slot;
    parent.slot = -1;
  }
  plan_build(pair.small, plan);
  plan.subtractions.push_back(
      {parent_slot, small.slot, large.slot, parent.width, small.width, large.width});
}

void Frontier::plan_pair(const Pair& pair, SearchPlan& plan) {
  const bool search_small = searchable(nodes_[pair.small]);
  const bool search_large = pair.large >= 0 && searchable(nodes_[pair.large]);
  const bool subtract = search_large && nodes_[pair.parent].slot >= 0;
  const auto n_nodes = [&] { return static_cast<int>(plan.nodes.size()); };
  const auto n_builds = [&] { return static_cast<int>(plan.builds.size()); };
  if (subtract) {
    const int first_node = n_nodes();
    plan_subtraction(pair, plan);
    plan_search(pair.large, nodes_[pair.small].slot, plan);
    if (search_small)
      plan_search(pair.small, -1, plan);
    else
      temporary_.push_back(pair.small);
    plan.parts.push_back(
        {n_builds() - 1, static_cast<int>(plan.subtractions.size()) - 1, first_node, n_nodes()});
    return;
  }
  if (pair.parent >= 0) release(pair.parent);
  for (const auto& [child, search] :
       {std::pair{pair.small, search_small}, std::pair{pair.large, search_large}}) {
    if (!search) continue;
    const bool is_built = nodes_[child].slot < 0;
    if (is_built) {
      take_slot(child);
      plan_build(child, plan);
    }
    plan_search(child, -1, plan);
    plan.parts.push_back({is_built ? n_builds() - 1 : -1, -1, n_nodes() - 1, n_nodes()});
  }
}

bool Frontier::next_search(SearchPlan& plan) {
  searched_.clear();
  while (searched_.empty() && next_pair_ < pairs_.size()) {
    const size_t n_pairs = std::min<size_t>(pairs_.size() - next_pair_, n_slots_ / 2);
    const Pair* first = pairs_.data() + next_pair_;
    make_room(2 * n_pairs, first, first + n_pairs);
    n_spare_ = one_width_ ? 0 : free_.size() - slots_needed(first, first + n_pairs);
    for (size_t i = 0; i < n_pairs; ++i) plan_pair(first[i], plan);
    next_pair_ += n_pairs;
  }
  return !searched_.empty();
}

void Frontier::record(const SplitInfo* found) {
  for (size_t i = 0; i < searched_.size(); ++i) take_in(searched_[i], found[i]);
  for (int node : temporary_) release(node);
  temporary_.clear();
}

void Frontier::take_in(int id, const SplitInfo& found) {
  FrontierNode& node = nodes_[id];
  node.split = found;
  node.least_gain = std::min(node.least_gain, found.gain);
  if (found.gain > 0.0)
    known_.push_back({node.least_gain, id});
  else
    release(id);
}

void Frontier::adopt(std::span<const FoundNode> found) {
  if (nodes_.empty()) throw std::invalid_argument("the frontier was not told the root");
  pairs_.clear();
  for (size_t i = 0; i < found.size(); ++i) {
    const int id = n_adopted_++;
    if (id == 0) {
      count_build(found[i].n_rows, nodes_[0].width);
    } else if (id % 2 == 1) {
      if (found[i].parent < 0 || found[i].parent >= id || i + 1 == found.size())
        throw std::invalid_argument("nodes without a parent or a sibling");
      const int64_t left = found[i].n_rows, right = found[i + 1].n_rows;
      add_children(found[i].parent, {left, 0}, {left, 0});
      if (found[i].is_searched || found[i + 1].is_searched)
        count_build(std::min(left, right), nodes_[id].width);
    }
    if (found[i].is_searched) take_in(id, found[i].split);
  }
}

}  // namespace bitgrove
