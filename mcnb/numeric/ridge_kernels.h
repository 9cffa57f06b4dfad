#pragma once

#include <cstddef>
#include <span>

// The inner loops of small ridge states, in double precision, compiled for every instruction set
// like those of kernels.h. Every sum has a fixed order, for any width of vectors, so AVX2 and
// AVX-512 agree bit for bit. Arguments are not checked.
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
// ||M M^-1 x - x||^2, the error of the inverse in the direction in which it has just changed.
double add_sample(const SmallRidge& ridge, const double* x, double reward);

// weights = inverse * sum
void find_weights(const SmallRidge& ridge);

// x.w and x^T M^-1 x for every point, given M^-1. A point has the same bits alone and among others.
void predict_points(std::size_t n, const double* inverse, const double* weights,
                    std::span<const float* const> points, double* estimates, double* squares);

}  // namespace mcnb::kernels
