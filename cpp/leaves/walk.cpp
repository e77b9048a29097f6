// Binned rows walk down a finished tree, to add its leaf values to their scores.
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "bindings/gil.h"
#include "bindings/records.h"
#include "bindings/rooms.h"
#include "common/parallel.h"
#include "plans.h"
#include "sparse/sparse_bins.h"

namespace bitgrove {
namespace {

// Bins by column. column_of: of each feature, -1 if it is in the lists of `sparse`.
struct BinnedRows {
  const uint8_t* columns;
  int64_t column_stride;
  const int32_t* column_of;
  const SparseBins* sparse;
};

// sets: null, or the set of each split; of splits by a bin it is empty.
struct BinnedTree {
  std::span<const BinnedSplit> splits;
  const BinSet* sets;
};

class Walk {
 public:
  // Rows that walk side by side: while one waits for its next step, others are looked at.
  static constexpr int GROUP = 8;

  Walk(const BinnedRows& rows, const BinnedTree& tree) : rows_(rows), tree_(tree) {
    for (const BinnedSplit& split : tree.splits) place_.push_back(rows.column_of[split.feature]);
    if (rows.sparse) ask_lists();
    make_steps();
  }

  // How many bins of features in lists the rows of a group have at hand while they walk.
  size_t n_asked() const { return GROUP * implied_.size(); }

  // Fills the leaves of GROUP rows; asked: n_asked() bytes of room.
  void find_leaves(const int64_t* rows, uint8_t* asked, int32_t* leaves) const {
    const auto n_splits = static_cast<int32_t>(tree_.splits.size());
    if (!implied_.empty())
      for (int k = 0; k < GROUP; ++k) read_list(rows[k], asked + k * implied_.size());
    std::fill_n(leaves, GROUP, 0);
    for (bool walks = n_splits > 0; walks;) {
      walks = false;
      for (int k = 0; k < GROUP; ++k) {
        const Step& step = steps_[leaves[k]];
        const uint8_t bin =
            step.column ? step.column[rows[k]] : asked[k * implied_.size() + step.asked];
        const bool left =
            step.set ? step.set->holds(bin) : (bin <= step.bin) | (bin == step.also_left);
        leaves[k] = step.next[left];
        walks |= leaves[k] < n_splits;
      }
    }
    for (int k = 0; k < GROUP; ++k) leaves[k] -= n_splits;
  }

 private:
  // A split; behind all splits come the leaves, which lead to themselves.
  struct Step {
    const uint8_t* column;   // null: the bin was asked for
    const BinSet* set;       // null: not by a subset
    int32_t next[2], asked;  // next: to the right, to the left
    uint8_t bin, also_left;
  };

  void make_steps() {
    const auto n_splits = static_cast<int32_t>(tree_.splits.size());
    const auto number = [&](int32_t child) { return child >= 0 ? child : n_splits + ~child; };
    for (int32_t s = 0; s < n_splits; ++s) {
      const BinnedSplit& split = tree_.splits[s];
      const int32_t place = place_[s];
      steps_.push_back({place < 0 ? nullptr : rows_.columns + place * rows_.column_stride,
                        split.by_subset ? tree_.sets + s : nullptr,
                        {number(split.right), number(split.left)},
                        ~place,
                        split.bin,
                        split.default_left ? split.missing_bin : split.bin});
    }
    for (int32_t leaf = n_splits; leaf <= 2 * n_splits && n_splits > 0; ++leaf) {
      steps_.push_back(steps_[0]);  // what is looked at does not matter
      steps_.back().next[0] = steps_.back().next[1] = leaf;
    }
  }

  // Numbers the features in lists that the tree asks for, in their order: place k is ~k.
  void ask_lists() {
    const SparseBins& sparse = *rows_.sparse;
    std::vector<int32_t> features;
    for (size_t s = 0; s < place_.size(); ++s)
      if (place_[s] < 0) features.push_back(tree_.splits[s].feature);
    std::sort(features.begin(), features.end());
    features.erase(std::unique(features.begin(), features.end()), features.end());
    wanted_ = std::vector<bool>(features.empty() ? 0 : sparse.n_bins());
    for (const int32_t f : features) {
      begins_.push_back(sparse.offset(f));
      implied_.push_back(static_cast<uint8_t>(sparse.implied(f) - sparse.offset(f)));
      std::fill(wanted_.begin() + sparse.offset(f), wanted_.begin() + sparse.offset(f + 1), true);
    }
    for (size_t s = 0; s < place_.size(); ++s)
      if (place_[s] < 0)
        place_[s] = ~static_cast<int32_t>(
            std::lower_bound(features.begin(), features.end(), tree_.splits[s].feature) -
            features.begin());
  }

  void read_list(int64_t row, uint8_t* asked) const {
    std::copy(implied_.begin(), implied_.end(), asked);
    rows_.sparse->rows().for_each(row, [&](uint32_t position) {
      if (!wanted_[position]) return;
      const auto k = std::upper_bound(begins_.begin(), begins_.end(), position) - begins_.begin();
      asked[k - 1] = static_cast<uint8_t>(position - begins_[k - 1]);
    });
  }

  BinnedRows rows_;
  BinnedTree tree_;
  std::vector<Step> steps_;
  [[maybe_unused]] bool is_plain_ = true;  // all splits are by a bin of a column
  std::vector<int32_t> place_;             // of each split: its column, or ~k
  std::vector<int64_t> begins_;            // of each feature that is asked for, its first position
  std::vector<uint8_t> implied_;           // and its implied bin
  std::vector<bool> wanted_;               // by position: whether it is of such a feature
};

const BinSet* binned_sets(const Matrix<const uint64_t>& left_bins, size_t n_splits) {
  if (left_bins.shape(0) == 0) return nullptr;
  require(left_bins.shape(0) == n_splits && left_bins.shape(1) == 4, "a set for each split");
  return reinterpret_cast<const BinSet*>(left_bins.data());
}

void check_places(const BinnedRows& rows, const BinnedTree& tree, int64_t n_features,
                  int64_t n_columns) {
  for (const BinnedSplit& split : tree.splits) {
    require(0 <= split.feature && split.feature < n_features, "feature out of range");
    require(!split.by_subset || tree.sets, "a split by a subset without sets");
    const int64_t column = rows.column_of[split.feature];
    require(column < n_columns && (column >= 0 || (rows.sparse && rows.sparse->has(split.feature))),
            "a feature is nowhere");
  }
}

void add_tree(const Vector<double>& scores, const Matrix<const uint8_t>& columns,
              const Records<BinnedSplit>& splits, const Matrix<const uint64_t>& left_bins,
              const Vector<const double>& values, const Optional<const int32_t>& listed,
              const Vector<const int32_t>& column_of, const SparseBins* sparse, int n_threads) {
  const int64_t n_rows = scores.shape(0), column_stride = columns.shape(1);
  const auto n_columns = static_cast<int64_t>(columns.shape(0));
  require(column_stride >= n_rows && values.shape(0) == splits.items.size() + 1, "bad sizes");
  const auto n_features = static_cast<int64_t>(column_of.shape(0));
  require(!sparse || (sparse->n_rows() == n_rows && sparse->n_features() == n_features),
          "lists of other rows or features");
  const BinnedRows rows{columns.data(), column_stride, column_of.data(), sparse};
  const BinnedTree tree{splits.items, binned_sets(left_bins, splits.items.size())};
  check_places(rows, tree, n_features, n_columns);
  const double* value = values.data();
  double* score = scores.data();
  const int32_t* list = listed ? listed->data() : nullptr;
  const int64_t n = listed ? static_cast<int64_t>(listed->shape(0)) : n_rows;
  WithoutGil released;
  const Walk walk(rows, tree);
  parallel_rows(n, n_threads, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> asked(walk.n_asked());
    int64_t group[Walk::GROUP];
    int32_t leaves[Walk::GROUP];
    for (int64_t i = begin; i < end; i += Walk::GROUP) {
      const int64_t n_here = std::min<int64_t>(Walk::GROUP, end - i);
      for (int64_t k = 0; k < Walk::GROUP; ++k) {  // the last group is filled up with its last row
        const int64_t at = i + std::min(k, n_here - 1);
        group[k] = list ? list[at] : at;
      }
      walk.find_leaves(group, asked.data(), leaves);
      for (int64_t k = 0; k < n_here; ++k) score[group[k]] += value[leaves[k]];
    }
  });
}

}  // namespace

void init_walk(nb::module_& m) {
  m.def("add_tree", &add_tree, "scores"_a, "columns"_a, "splits"_a, "left_bins"_a, "values"_a,
        "rows"_a.none(), "column_of"_a, "sparse"_a.none(), "n_threads"_a,
        "Adds a tree to the scores of binned rows: all, or the listed ones.");
}

}  // namespace bitgrove
