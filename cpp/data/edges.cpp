// Where a feature is cut into bins. Integer counts decide every cut.
#include "data/edges.h"

#include <cmath>
#include <vector>

#include "bindings/numpy_arrays.h"
#include "bindings/rooms.h"

namespace bitgrove {
namespace {

// A number e with low <= e < high: the middle, or low where the middle rounds away.
double between(double low, double high) {
  const double middle = low * 0.5 + high * 0.5;
  return low <= middle && middle < high ? middle : low;
}

// Equal shares of rows: row r belongs to group r * n_groups / n_rows, found without dividing.
struct Shares {
  int64_t n_groups, n_rows, group = 0;

  // Does another group begin at this row? Asked for rows in ascending order.
  bool begins_at(int64_t row) {
    const int64_t before = group;
    while (row * n_groups >= (group + 1) * n_rows) ++group;
    return group != before;
  }
};

// Distinct values after which a bin ends: heavy values alone, the rest in equal shares.
std::vector<size_t> bin_ends(const std::vector<int64_t>& counts, int64_t n_rows, int64_t max_bin) {
  const auto is_heavy = [&](size_t i) { return counts[i] * max_bin >= n_rows; };
  int64_t n_light = 0, n_groups = max_bin;
  for (size_t i = 0; i < counts.size(); ++i) is_heavy(i) ? n_groups -= 1 : n_light += counts[i];
  std::vector<size_t> ends;
  while (n_groups > 0 && n_light > 0) {
    ends.clear();
    Shares shares{n_groups, n_light};
    int64_t n_below = 0;  // light rows
    for (size_t i = 0; i + 1 < counts.size(); ++i) {
      n_below += is_heavy(i) ? 0 : counts[i];
      if (shares.begins_at(n_below) || is_heavy(i) || is_heavy(i + 1)) ends.push_back(i);
    }
    const int64_t excess = static_cast<int64_t>(ends.size()) + 1 - max_bin;
    if (excess <= 0) return ends;
    n_groups -= excess;
  }
  ends.clear();
  Shares shares{max_bin, n_rows};
  int64_t n_below = 0;
  for (size_t i = 0; i + 1 < counts.size(); ++i)
    if (shares.begins_at(n_below += counts[i])) ends.push_back(i);
  return ends;
}

// At most max_bin - 1 increasing edges between the values of a sorted sample; NaN at its end is
// ignored.
auto cut_edges(Vector<const double> sorted, int64_t max_bin) {
  require(max_bin >= 1, "max_bin must be positive");
  std::vector<double> distinct;
  std::vector<int64_t> counts;
  int64_t n_rows = 0;
  for (size_t i = 0; i < sorted.shape(0) && !std::isnan(sorted(i)); ++i, ++n_rows) {
    const double value = sorted(i) + 0.0;  // one zero, not two
    if (distinct.empty() || value != distinct.back()) {
      distinct.push_back(value);
      counts.push_back(0);
    }
    ++counts.back();
  }
  std::vector<double> edges;
  if (static_cast<int64_t>(distinct.size()) <= max_bin)
    for (size_t i = 0; i + 1 < distinct.size(); ++i)
      edges.push_back(between(distinct[i], distinct[i + 1]));
  else
    for (size_t end : bin_ends(counts, n_rows, max_bin))
      edges.push_back(between(distinct[end], distinct[end + 1]));
  const size_t n_edges = edges.size();
  return to_numpy(std::move(edges), {n_edges});
}

}  // namespace

void init_edges(nb::module_& m) {
  m.def("cut_edges", &cut_edges, "sorted"_a, "max_bin"_a,
        "At most max_bin - 1 increasing edges for a sorted sample of one feature.");
}

}  // namespace bitgrove
