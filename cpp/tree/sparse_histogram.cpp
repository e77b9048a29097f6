// See sparse_histogram.h. A thread adds the values of some rows directly into a slot, or into
// memory of its own as large as one where several share a node: bins are too many for narrow
// blocks.
#include "tree/sparse_histogram.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "common/parallel.h"
#include "common/widths.h"

namespace bitgrove {
namespace {

constexpr int64_t PREFETCH_BEGIN = 32, PREFETCH_ROW = 16;
constexpr int64_t VALUES_PER_LINE = 16;  // positions in a cache line
// Work worth waking a thread for; values of a node for each bin that sharing it costs.
constexpr int64_t VALUES_PER_THREAD = 1 << 15;
constexpr int64_t VALUES_PER_BIN = 4;
constexpr int64_t FEATURES_OF_TASK = 4096;

// Some rows of a node, added into `sums`: its slot, or memory of their own.
struct Part {
  int node;
  int64_t begin, end;
  uint8_t* sums;
  GradientSums added{0, 0};
};

class Builder {
 public:
  Builder(std::span<const Build> plan, const PoolView& pool, const HistogramSource& source,
          int n_threads)
      : plan_(plan), source_(source), bins_(*source.sparse), n_threads_(n_threads) {
    for (const Build& build : plan)
      slots_.push_back(pool.slot(build.slot, bins_.n_bins(), build.total_width));
    const int64_t n_values = values_in(plan);
    if (n_values < 2 * VALUES_PER_THREAD) n_threads_ = 1;
    for (int n = 0; n < static_cast<int>(plan.size()); ++n) add_parts(n, n_values);
  }

  void build() {
    parallel_tasks(static_cast<int64_t>(parts_.size()), n_threads_,
                   [&](int64_t p) { add_rows(parts_[p]); });
    const auto n_features = static_cast<int64_t>(bins_.features().size());
    const int64_t n_blocks = blocks_of(n_features, FEATURES_OF_TASK);
    parallel_tasks(n_blocks * static_cast<int64_t>(plan_.size()), n_threads_, [&](int64_t task) {
      const int64_t first = task % n_blocks * FEATURES_OF_TASK;
      finish(static_cast<int>(task / n_blocks), first,
             std::min(first + FEATURES_OF_TASK, n_features));
    });
  }

 private:
  // About so many values are stored in the rows of the nodes.
  int64_t values_in(std::span<const Build> builds) const {
    int64_t n_rows = 0;
    for (const Build& build : builds) n_rows += build.end - build.begin;
    return n_rows * (bins_.n_values() / std::max<int64_t>(bins_.n_rows(), 1) + 1);
  }

  // A node that is a large share of all is divided among threads, if it has values enough.
  void add_parts(int node, int64_t n_values) {
    const Build& build = plan_[node];
    const int64_t mine = values_in({&build, 1});
    const int64_t wanted = (mine * n_threads_ + n_values - 1) / std::max<int64_t>(n_values, 1);
    const int64_t most = mine / (VALUES_PER_BIN * std::max<int64_t>(bins_.n_bins(), 1));
    const int64_t n_parts = std::clamp<int64_t>(std::min(wanted, most), 1, n_threads_);
    const int64_t n_rows = build.end - build.begin;
    for (int64_t p = 0; p < n_parts; ++p) {
      uint8_t* sums = slots_[node];
      if (p > 0) {
        const int64_t n_bytes = bins_.n_bins() * build.total_width / 4;
        own_.push_back(std::make_unique_for_overwrite<uint8_t[]>(n_bytes));
        sums = own_.back().get();
      }
      parts_.push_back({node, build.begin + n_rows * p / n_parts,
                        build.begin + n_rows * (p + 1) / n_parts, sums});
    }
  }

  template <class Visit>
  void visit_total(int node, Visit&& visit) const {
    visit_width(plan_[node].total_width, source_.packed, [&](auto total) {
      if constexpr (decltype(total)::half_bits >= 16) visit(total);
    });
  }

  void add_rows(Part& part) const {
    visit_total(part.node, [&](auto total) {
      using Total = decltype(total);
      auto* sums = reinterpret_cast<typename Total::Sum*>(part.sums);
      std::fill_n(sums, bins_.n_bins(), typename Total::Sum{});
      visit_row_width(source_.row_width / 4,
                      [&](auto row) { add_values<decltype(row), Total>(part, sums); });
    });
  }

  template <class Row, class Total>
  void add_values(Part& part, typename Total::Sum* sums) const {
    const auto* packed_rows = static_cast<const typename Row::Sum*>(source_.packed_rows);
    const int32_t* rows = source_.rows;
    const int64_t last = part.end - 1;
    for (int64_t i = part.begin; i < part.end; ++i) {
      const int64_t row = rows[i];
      __builtin_prefetch(bins_.row_begin(rows[std::min(i + PREFETCH_BEGIN, last)]));
      const int64_t ahead = rows[std::min(i + PREFETCH_ROW, last)];
      __builtin_prefetch(packed_rows + ahead);
      const std::span<const uint32_t> coming = bins_.row(ahead);
      for (size_t k = 0; k < coming.size(); k += VALUES_PER_LINE)
        __builtin_prefetch(coming.data() + k);
      const typename Row::Sum packed = packed_rows[row];
      part.added.grad += Row::grad(packed);
      part.added.hess += Row::hess(packed);
      const typename Total::Sum value = convert<Total, Row>(packed);
      for (const uint32_t position : bins_.row(row))
        sums[position] = Total::add(sums[position], value);
    }
  }

  // Joins the parts of a node, and fills the implied bins, of some of the features in lists.
  void finish(int node, int64_t first, int64_t last) const {
    visit_total(node, [&](auto total) {
      using Total = decltype(total);
      using Sum = typename Total::Sum;
      auto* sums = reinterpret_cast<Sum*>(slots_[node]);
      GradientSums all{0, 0};
      for (const Part& part : parts_) {
        if (part.node != node) continue;
        all = {all.grad + part.added.grad, all.hess + part.added.hess};
        if (part.sums == slots_[node]) continue;
        const auto* more = reinterpret_cast<const Sum*>(part.sums);
        for (int64_t i = first; i < last; ++i) {
          const int64_t f = bins_.features()[i], end = bins_.offset(f + 1);
          for (int64_t b = bins_.offset(f); b < end; ++b) sums[b] = Total::add(sums[b], more[b]);
        }
      }
      const Sum of_node = Total::pack(all.grad, all.hess);
      for (int64_t i = first; i < last; ++i) {
        const int64_t f = bins_.features()[i], end = bins_.offset(f + 1);
        Sum rest = of_node;
        for (int64_t b = bins_.offset(f); b < end; ++b) rest = Total::subtract(rest, sums[b]);
        Sum& implied = sums[bins_.implied(f)];
        implied = Total::add(implied, rest);
      }
    });
  }

  std::span<const Build> plan_;
  const HistogramSource& source_;
  const SparseBins& bins_;
  int n_threads_;
  std::vector<uint8_t*> slots_;
  std::vector<std::unique_ptr<uint8_t[]>> own_;
  std::vector<Part> parts_;
};

}  // namespace

void build_sparse(std::span<const Build> plan, const PoolView& pool, const HistogramSource& source,
                  int n_threads) {
  Builder(plan, pool, source, n_threads).build();
}

}  // namespace bitgrove
