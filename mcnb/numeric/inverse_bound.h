#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/base/state_file.h"

namespace mcnb {

// An upper bound of v^T Z^-1 v, Z = lambda I + sum x x^T, in the time and memory of one vector.
//
// Z is at least lambda I + s s^T / n, where s is the sum of n vectors x: for any y, n times the sum
// of (x.y)^2 is at least the square of the sum of x.y. The inverse of this lower bound is known.
// The result is close if the vectors have much in common, as pictures and gradients of a network
// do.
class InverseBound {
 public:
  // Requires lambda > 0.
  InverseBound(std::size_t size, double lambda) : lambda_(lambda), sum_(size) {}

  void add(std::span<const double> x);
  // Adds or removes all vectors of another bound of the same size. Requires that removed vectors
  // were added before; Z may hold vectors that were never added here.
  void merge(const InverseBound& other);
  void remove(const InverseBound& other);

  std::span<const double> sum() const { return sum_; }
  // The bound for a vector v: `square` is |v|^2, `along` is v . sum().
  double largest_square(double square, double along) const;

  std::size_t memory_bytes() const { return sum_.capacity() * sizeof sum_[0]; }
  void save(StateWriter& writer) const;
  // Requires an object of the same size and lambda. Refuses data of more than `most` vectors.
  void load(StateReader& reader, std::uint64_t most);

 private:
  void find_square();

  double lambda_;
  std::vector<double> sum_;
  std::uint64_t count_ = 0;
  double lengths_ = 0.0;  // sum over all vectors that were ever added or removed
  double square_ = 0.0;   // |sum|^2
};

}  // namespace mcnb
