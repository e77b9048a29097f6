// Gauss's quadrature on (0, 1): integrals of polynomials as sums over a few points.
#pragma once

#include <vector>

namespace bitgrove {

struct QuadraturePoint {
  double t, rest, weight;  // rest: 1 - t
};

// n points, which are exact for polynomials of degree 2n - 1. Additions, multiplications and
// divisions alone: the same bits everywhere.
std::vector<QuadraturePoint> quadrature(int n);

}  // namespace bitgrove
