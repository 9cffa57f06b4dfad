#pragma once

#include <cstddef>
#include <span>

// The inner loops of small ridge states, in double precision, for every instruction set like those
// of kernels.h. Every number is a sum in a fixed order, whatever the width of vectors, so that AVX2
// and AVX-512 agree bit for bit. Nothing is checked here.
namespace mcnb::kernels {

inline constexpr std::size_t kSmallRidge = 64;      // dimensions at most
inline constexpr std::size_t kPointsTogether = 16;  // points of one prediction at most

// A ridge state (ridge.h). Matrices are n x n, column by column.
struct SmallRidge {
  std::size_t n;
  double* matrix;
  double* inverse;
  double* sum;
  double* weights;
};

// Adds the sample (x, reward) to all four parts, to the inverse by a rank-one update. Returns
// ||M M^-1 x - x||^2: how far the inverse is off, in the direction in which it has just changed.
double add_sample(const SmallRidge& ridge, const double* x, double reward);

// weights = inverse * sum
void find_weights(const SmallRidge& ridge);

// x.w and x^T M^-1 x, M^-1 given, for every point. One point or many, the bits are the same.
void predict_points(std::size_t n, const double* inverse, const double* weights,
                    std::span<const float* const> points, double* estimates, double* squares);

}  // namespace mcnb::kernels
