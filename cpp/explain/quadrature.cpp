#include "explain/quadrature.h"

namespace bitgrove {
namespace {

constexpr double PI = 3.14159265358979323846;
constexpr int NEWTON_STEPS = 8;  // from a start that is right to 3 digits, 4 would do

// By its series, for 0 <= x <= pi / 2.
double cosine(double x) {
  double sum = 1.0, term = 1.0;
  for (int k = 1; k <= 11; ++k) {
    term = -term * x * x / ((2.0 * k - 1.0) * (2.0 * k));
    sum = sum + term;
  }
  return sum;
}

struct Legendre {
  double value, slope;
};

Legendre legendre(int n, double x) {
  double before = 1.0, now = x;
  for (int k = 2; k <= n; ++k) {
    const double next = ((2.0 * k - 1.0) * x * now - (k - 1.0) * before) / k;
    before = now;
    now = next;
  }
  return {now, n * (x * now - before) / (x * x - 1.0)};
}

}  // namespace

std::vector<QuadraturePoint> quadrature(int n) {
  std::vector<QuadraturePoint> points(n);
  for (int k = 0; 2 * k < n; ++k) {  // the roots of Legendre's polynomial, from the largest down
    double x = 2 * k + 1 == n ? 0.0 : cosine(PI * (k + 0.75) / (n + 0.5));
    if (x != 0.0)
      for (int step = 0; step < NEWTON_STEPS; ++step) {
        const Legendre at = legendre(n, x);
        x = x - at.value / at.slope;
      }
    const double slope = legendre(n, x).slope;
    const double high = 0.5 + 0.5 * x, low = 0.5 - 0.5 * x;
    const double weight = 1.0 / ((1.0 - x * x) * slope * slope);
    points[n - 1 - k] = {high, low, weight};
    points[k] = {low, high, weight};
  }
  return points;
}

}  // namespace bitgrove
