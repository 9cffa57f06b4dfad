#pragma once

#include <Eigen/Dense>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/base/state_file.h"

namespace mcnb {

// Eigen counts rows and columns with signed numbers.
inline Eigen::Index signed_size(std::size_t size) { return static_cast<Eigen::Index>(size); }

// The most numbers that one list of a saved state may hold.
inline constexpr std::uint64_t kMostNumbers = std::uint64_t{1} << 34;

// Saves a matrix or vector as a list of its numbers, column by column.
template <class Matrix>
void write_matrix(StateWriter& writer, const Matrix& matrix) {
  writer.write_all(std::span<const double>(matrix.data(), static_cast<std::size_t>(matrix.size())));
}

// Loads into a matrix that has the saved one's size. Fails for another size and for numbers that
// are not finite.
template <class Matrix>
void read_matrix(StateReader& reader, Matrix& matrix) {
  const std::vector<double> values =
      reader.read_all<double>(static_cast<std::uint64_t>(matrix.size()));
  if (values.size() != static_cast<std::size_t>(matrix.size())) {
    reader.fail("a matrix has another size");
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      reader.fail("a matrix has a number that is not finite");
    }
    matrix.data()[i] = values[i];
  }
}

}  // namespace mcnb
