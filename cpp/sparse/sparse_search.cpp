// See sparse_search.h.
#include "sparse/sparse_search.h"

#include <algorithm>
#include <vector>

#include "common/parallel.h"
#include "common/widths.h"

namespace bitgrove {
namespace {

// Of a task: the sums of a few nodes stay in a core's own cache.
constexpr int64_t FEATURES_OF_TASK = 32;

// No row's integers are wider.
using Value = Packed<32>;

class Search {
 public:
  Search(const SearchPlan& plan, const PoolView& pool, const HistogramSource& source,
         const SplitFeatures& features, const SearchRules& rules)
      : bins_(*source.sparse),
        features_(features),
        rules_(rules),
        nodes_(searched_nodes(plan.nodes, pool, features, rules)),
        rows_(bins_.n_rows(), {0, n_nodes()}) {
    features_.bin_offset = bins_.all_offsets();  // slots may have no room for these features
    width_ = source.row_width > 16 ? 64 : 32;
    for (const SearchedNode& node : nodes_) width_ = std::max(width_, node.width);
    for (SearchedNode& node : nodes_) {
      node.width = width_;
      node.can_estimate &= width_ == 32;
    }
    for (int64_t k = 0; k < n_nodes(); ++k)
      for (int64_t i = plan.rows[k].begin; i < plan.rows[k].end; ++i)
        visit_row_width(source.row_width / 4, [&](auto row) {
          using Row = decltype(row);
          const int32_t r = source.rows[i];
          rows_[r] = {convert<Value, Row>(static_cast<const Row::Sum*>(source.packed_rows)[r]), k};
        });
  }

  std::vector<SplitInfo> search(int n_threads, Simd simd) const {
    const auto n_features = static_cast<int64_t>(bins_.features().size());
    const int64_t n_tasks = blocks_of(n_features, FEATURES_OF_TASK);
    std::vector<SplitInfo> best(n_nodes(), NO_SPLIT), found(n_tasks * n_nodes());
    std::vector<std::vector<uint8_t>> room(std::max(1, n_threads));
    parallel_tasks(n_tasks, n_threads, [&](int64_t task, int member) {
      const int64_t first = task * FEATURES_OF_TASK;
      search_some({bins_.features().data() + first,
                   static_cast<size_t>(std::min(FEATURES_OF_TASK, n_features - first))},
                  room[member], &found[task * n_nodes()], simd);
    });
    for (int64_t i = 0; i < n_tasks * n_nodes(); ++i)
      if (found[i].gain > best[i % n_nodes()].gain) best[i % n_nodes()] = found[i];
    return best;
  }

 private:
  struct OfRow {
    Value::Sum value;
    int64_t node;  // that it is in; n_nodes() if it is in none
  };

  int64_t n_nodes() const { return static_cast<int64_t>(nodes_.size()); }

  void search_some(std::span<const int> listed, std::vector<uint8_t>& sums, SplitInfo* found,
                   Simd simd) const {
    const int64_t first = bins_.offset(listed.front()), n = bins_.offset(listed.back() + 1) - first;
    const int64_t bytes_of_sum = width_ / 4;
    sums.assign((n_nodes() + 1) * n * bytes_of_sum, 0);  // the last ones are of rows in no node
    const auto add_all = [&](auto total) {
      auto* of_first = reinterpret_cast<typename decltype(total)::Sum*>(sums.data());
      for (const int f : listed) add<decltype(total)>(f, of_first + bins_.offset(f) - first, n);
    };
    width_ == 32 ? add_all(Packed<32>{}) : add_all(Packed<64>{});
    for (int64_t k = 0; k < n_nodes(); ++k) {
      SearchedNode node = nodes_[k];
      // Where a slot would begin that has these bins where they are.
      node.slot = reinterpret_cast<const uint8_t*>(reinterpret_cast<uintptr_t>(sums.data()) +
                                                   (k * n - first) * bytes_of_sum);
      found[k] = find_split(node, features_, listed, rules_, simd);
    }
  }

  // A feature's values into the sums of each node, which are n after those of the node before.
  template <class Total>
  void add(int feature, typename Total::Sum* sums, int64_t n) const {
    bins_.for_each_row(feature, [rows = rows_.data(), sums, n](int64_t row, int bin) {
      auto& sum = sums[rows[row].node * n + bin];
      sum = Total::add(sum, convert<Total, Value>(rows[row].value));
    });
    const int64_t n_bins = bins_.offset(feature + 1) - bins_.offset(feature);
    const int64_t implied = bins_.implied(feature) - bins_.offset(feature);
    for (const SearchedNode& node : nodes_) {
      auto rest = Total::pack(static_cast<int64_t>(node.grad), static_cast<int64_t>(node.hess));
      for (int64_t b = 0; b < n_bins; ++b) rest = Total::subtract(rest, sums[b]);
      sums[implied] = rest;
      sums += n;
    }
  }

  const SparseBins& bins_;
  SplitFeatures features_;
  const SearchRules& rules_;
  std::vector<SearchedNode> nodes_;
  std::vector<OfRow> rows_;
  int width_;
};

}  // namespace

std::vector<SplitInfo> search_postings(const SearchPlan& plan, const PoolView& pool,
                                       const HistogramSource& source, const SplitFeatures& features,
                                       const SearchRules& rules, int n_threads, Simd simd) {
  return Search(plan, pool, source, features, rules).search(n_threads, simd);
}

}  // namespace bitgrove
