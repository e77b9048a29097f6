// See sparse_histogram.h. A thread adds the values of some rows directly into a slot, or into
// memory of its own as large as one where several share a node: bins are too many for narrow
// blocks.
#include "sparse/sparse_histogram.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/compiler.h"
#include "common/parallel.h"
#include "common/widths.h"

namespace bitgrove {
namespace {

constexpr int64_t PREFETCH_PLACE = 32, PREFETCH_LIST = 16;  // rows ahead
// Work worth waking a thread for; values of a node for each bin that sharing it costs.
constexpr int64_t VALUES_PER_THREAD = 1 << 15;
constexpr int64_t VALUES_PER_BIN = 4;
constexpr int64_t FEATURES_OF_TASK = 4096;
// What looking at a value one by one costs, and at a feature, in bins that are gone through.
constexpr int64_t BINS_PER_VALUE = 4, BINS_PER_FEATURE_SEEN = 2;

// About so many values are stored in the rows of the builds.
int64_t values_in(std::span<const Build> builds, const SparseBins& bins) {
  int64_t n_rows = 0;
  for (const Build& build : builds) n_rows += build.end - build.begin;
  return n_rows * bins.values_per_row();
}

// Whether going through the build's values and all features takes less than going through all bins.
bool has_few_values(const Build& build, const SparseBins& bins) {
  const auto n_features = static_cast<int64_t>(bins.features().size());
  return BINS_PER_VALUE * values_in({&build, 1}, bins) + BINS_PER_FEATURE_SEEN * n_features <
         bins.n_bins();
}

// The rows [begin, end) of a source, with their integers: calls visit(value, row) for each, the
// value as a sum of Total.
template <class Row, class Total, class Visit>
void for_each_row(const HistogramSource& source, int64_t begin, int64_t end, Visit&& visit) {
  const RowLists& lists = source.sparse->rows();
  const auto* packed_rows = static_cast<const typename Row::Sum*>(source.packed_rows);
  const int32_t* rows = source.rows;
  const int64_t last = end - 1;
  for (int64_t i = begin; i < end; ++i) {
    lists.prefetch_place(rows[std::min(i + PREFETCH_PLACE, last)]);
    const int64_t row = rows[i], ahead = rows[std::min(i + PREFETCH_LIST, last)];
    prefetch(packed_rows + ahead);
    lists.prefetch_list(ahead);
    visit(convert<Total, Row>(packed_rows[row]), row);
  }
}

// Moves rows into a histogram or out of it, implied bins and all: every feature's implied bin takes
// the sums of all rows, and gives each value's to its own bin.
template <class Row, class Total>
BG_NOINLINE void move_rows(const HistogramSource& source, int64_t begin, int64_t end, bool in,
                           typename Total::Sum* sums) {
  using Sum = typename Total::Sum;
  const SparseBins& bins = *source.sparse;
  Sum all{};
  for_each_row<Row, Total>(source, begin, end, [&](Sum given, int64_t row) {
    const Sum value = in ? given : Total::subtract(Sum{}, given);
    all = Total::add(all, value);
    bins.rows().for_each(row, [&](uint32_t position) {
      Sum& implied = sums[bins.implied(bins.feature_at(position))];
      sums[position] = Total::add(sums[position], value);
      implied = Total::subtract(implied, value);
    });
  });
  for (const int32_t f : bins.features()) {
    Sum& sum = sums[bins.implied(f)];
    sum = Total::add(sum, all);
  }
}

// Some rows of a node, added into `sums`: its slot, or memory of their own; or all rows, but only
// their values at some of the positions.
struct Part {
  int node;
  int64_t begin, end;
  uint8_t* sums;
  BinRange positions;
  GradientSums added{0, 0};
};

class Builder {
 public:
  Builder(std::span<const Build> plan, const PoolView& pool, const HistogramSource& source,
          int n_threads)
      : plan_(plan), source_(source), bins_(*source.sparse), n_threads_(n_threads) {
    for (const Build& build : plan)
      slots_.push_back(pool.slot(build.slot, bins_.n_bins(), build.total_width));
    const int64_t n_values = values_in(plan, bins_);
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
  // A node that is a large share of all is divided among threads: by its rows, if it has values
  // enough to pay for sums of their own, else by the positions of its values.
  void add_parts(int node, int64_t n_values) {
    const Build& build = plan_[node];
    const int64_t mine = values_in({&build, 1}, bins_);
    const int64_t wanted = (mine * n_threads_ + n_values - 1) / std::max<int64_t>(n_values, 1);
    const int64_t most = mine / (VALUES_PER_BIN * std::max<int64_t>(bins_.n_bins(), 1));
    const int64_t n_parts = std::clamp<int64_t>(std::min(wanted, most), 1, n_threads_);
    const int64_t n_rows = build.end - build.begin;
    if (n_parts == 1 && !has_few_values(build, bins_)) {
      const int64_t n = std::clamp<int64_t>(wanted, 1, n_threads_);
      for (int64_t p = 0; p < n; ++p)
        parts_.push_back({node,
                          build.begin,
                          build.end,
                          slots_[node],
                          {bins_.position_border(p, n), bins_.position_border(p + 1, n)}});
      return;
    }
    for (int64_t p = 0; p < n_parts; ++p) {
      uint8_t* sums = slots_[node];
      if (p > 0) {
        const int64_t n_bytes = bins_.n_bins() * build.total_width / 4;
        own_.push_back(std::unique_ptr<uint8_t[]>(new uint8_t[n_bytes]));
        sums = own_.back().get();
      }
      parts_.push_back({node,
                        build.begin + n_rows * p / n_parts,
                        build.begin + n_rows * (p + 1) / n_parts,
                        sums,
                        {0, bins_.n_bins()}});
    }
  }

  template <class Visit>
  void visit_total(int node, Visit&& visit) const {
    visit_total_width(plan_[node].total_width, visit);
  }

  void add_rows(Part& part) const {
    visit_total(part.node, [&](auto total) {
      using Total = decltype(total);
      auto* sums = reinterpret_cast<typename Total::Sum*>(part.sums);
      const auto [first, last] = part.positions;
      std::fill_n(sums + first, last - first, typename Total::Sum{});
      visit_row_within<Total>(source_.row_width, [&](auto row) {
        if (has_few_values(plan_[part.node], bins_))
          return move_rows<decltype(row), Total>(source_, part.begin, part.end, true, sums);
        add_values<decltype(row), Total>(part, sums);
      });
    });
  }

  template <class Row, class Total>
  void add_values(Part& part, typename Total::Sum* sums) const {
    typename Total::Sum all{};
    const auto first = static_cast<uint64_t>(part.positions.first);
    const uint64_t n = static_cast<uint64_t>(part.positions.last) - first;
    const auto add = [&](auto is_mine) {
      for_each_row<Row, Total>(source_, part.begin, part.end, [&](auto value, int64_t row) {
        all = Total::add(all, value);
        bins_.rows().for_each(row, [&](uint32_t position) {
          if (is_mine(position)) sums[position] = Total::add(sums[position], value);
        });
      });
    };
    if (n == static_cast<uint64_t>(bins_.n_bins()))
      add([](uint32_t) { return true; });
    else
      add([first, n](uint32_t position) { return position - first < n; });
    if (first == 0) part.added = {Total::grad(all), Total::hess(all)};
  }

  // Joins the parts of a node, and fills the implied bins, of some of the features in lists.
  void finish(int node, int64_t first, int64_t last) const {
    if (has_few_values(plan_[node], bins_)) return;  // it was finished as it was built
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

void subtract_sparse(std::span<const Subtraction> plan, std::span<const Build> builds,
                     const PoolView& pool, const HistogramSource& source, int n_threads,
                     Simd simd) {
  const SparseBins& bins = *source.sparse;
  std::vector<Subtraction> whole;
  std::vector<std::pair<Subtraction, Build>> by_rows;
  for (const Subtraction& step : plan) {
    check_subtraction(step, pool, bins.n_bins());
    const auto build = std::find_if(builds.begin(), builds.end(), [&](const Build& candidate) {
      return candidate.slot == step.built_slot;
    });
    if (build != builds.end() && step.out_slot == step.parent_slot && has_few_values(*build, bins))
      by_rows.emplace_back(step, *build);
    else
      whole.push_back(step);
  }
  subtract_histograms(whole, pool, {0, bins.n_bins()}, n_threads, simd);
  parallel_tasks(static_cast<int64_t>(by_rows.size()), n_threads, [&](int64_t task) {
    const auto& step = by_rows[task].first;
    const auto& build = by_rows[task].second;
    uint8_t* parent = pool.slot(step.parent_slot, bins.n_bins(), step.parent_width);
    for (const TileColumn& column : source.layout->columns())
      for (const TileCode& code : column.codes)
        for (const TileMember& member : code.members)
          subtract_histograms({&step, 1}, pool,
                              {member.bin_offset, member.bin_offset + member.n_bins}, 1, simd);
    visit_total_width(step.parent_width, [&](auto total) {
      using Total = decltype(total);
      visit_row_within<Total>(source.row_width, [&](auto row) {
        move_rows<decltype(row), Total>(source, build.begin, build.end, false,
                                        reinterpret_cast<typename Total::Sum*>(parent));
      });
    });
  });
}

}  // namespace bitgrove
