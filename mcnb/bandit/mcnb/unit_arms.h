#pragma once

#include <cstddef>
#include <vector>

#include "mcnb/numeric/network.h"

namespace mcnb {

// Scales feature vectors to unit length, which the theory of M-CNB assumes.
class UnitArms {
 public:
  // Lengths that differ from 1 by at most this are taken to be 1: that much is float rounding.
  static constexpr double kRounding = 1e-5;

  // Returns x / |x|. A vector of zeros, or one whose length already is 1, is returned as it is,
  // with its bits and its memory. Otherwise the result borrows memory of this object until `clear`.
  // Requires finite features; no length overflows or underflows.
  Features scaled(const Features& x);

  // Gives the memory of all results back for new ones.
  void clear() { used_ = 0; }

  std::size_t memory_bytes() const;

 private:
  std::vector<std::vector<float>> vectors_;  // each keeps its memory when the list grows
  std::size_t used_ = 0;                     // of vectors_
};

}  // namespace mcnb
