#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/base/state_file.h"

namespace mcnb {

// An upper bound of v^T Z^-1 v, Z = lambda I + sum x x^T, that costs as much as one vector.
//
// Z is at least lambda I + s s^T / n, s being the sum of n vectors x: for any y, n times the sum of
// (x.y)^2 is at least the square of the sum of x.y. The inverse of that is known, and is not far
// off where the vectors have much in common, as pictures do, and gradients of a network.
class InverseBound {
 public:
  // Requires lambda > 0.
  InverseBound(std::size_t size, double lambda) : lambda_(lambda), sum_(size) {}

  void add(std::span<const double> x);
  // Of others of the same size. What is removed must have been added; Z may hold vectors that were
  // never added here.
  void merge(const InverseBound& other);
  void remove(const InverseBound& other);

  std::span<const double> sum() const { return sum_; }
  // `square`: |v|^2; `along`: v . sum().
  double largest_square(double square, double along) const;

  std::size_t memory_bytes() const { return sum_.capacity() * sizeof sum_[0]; }
  void save(StateWriter& writer) const;
  // Into one of the same size and lambda. Refuses what cannot be of at most `most` vectors.
  void load(StateReader& reader, std::uint64_t most);

 private:
  void find_square();

  double lambda_;
  std::vector<double> sum_;
  std::uint64_t count_ = 0;
  double lengths_ = 0.0;  // of all vectors that ever went into the sum, or out of it
  double square_ = 0.0;   // |sum|^2
};

}  // namespace mcnb
