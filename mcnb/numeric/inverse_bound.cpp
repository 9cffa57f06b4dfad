#include "mcnb/numeric/inverse_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

double square_of(std::span<const double> x) {
  return std::transform_reduce(x.begin(), x.end(), x.begin(), 0.0);
}

}  // namespace

void InverseBound::add(std::span<const double> x) {
  check(x.size() == sum_.size(), "vectors have the size of the bound");
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum_[i] += x[i];
  }
  ++count_;
  lengths_ += std::sqrt(square_of(x));
  find_square();
}

void InverseBound::merge(const InverseBound& other) {
  check(other.sum_.size() == sum_.size(), "bounds that are joined have one size");
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    sum_[i] += other.sum_[i];
  }
  count_ += other.count_;
  lengths_ += other.lengths_;
  find_square();
}

void InverseBound::remove(const InverseBound& other) {
  check(other.sum_.size() == sum_.size() && other.count_ <= count_,
        "a bound gives up no more than it has");
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    sum_[i] -= other.sum_[i];
  }
  count_ -= other.count_;
  lengths_ += other.lengths_;
  find_square();
}

void InverseBound::find_square() { square_ = square_of(sum_); }

double InverseBound::largest_square(double square, double along) const {
  constexpr double kRoundings = 1e-9;        // of |v|^2: error that the bound allows for
  constexpr double kRoundingsOfSum = 1e-10;  // error of the sum that kRoundings covers
  const auto count = static_cast<double>(count_);
  const double room = count * lambda_ + square_;
  // If vectors cancel each other, their sum may consist of rounding errors.
  const double lost = std::numeric_limits<double>::epsilon() * count * lengths_;
  if (count_ == 0 || !std::isfinite(room) || !(lost <= kRoundingsOfSum * std::sqrt(room))) {
    return square / lambda_;
  }
  const double left = std::max(0.0, square - along * along / room) + kRoundings * square;
  return std::min(left, square) / lambda_;
}

void InverseBound::save(StateWriter& writer) const {
  writer.write(count_);
  writer.write(lengths_);
  writer.write_all(sum_);
}

void InverseBound::load(StateReader& reader, std::uint64_t most) {
  count_ = reader.read<std::uint64_t>();
  lengths_ = reader.read<double>();
  const std::vector<double> sum = reader.read_all<double>(sum_.size());
  if (count_ > most || !(lengths_ >= 0.0) || sum.size() != sum_.size() ||
      !std::ranges::all_of(sum, [](double value) { return std::isfinite(value); })) {
    reader.fail("the sum of a matrix's vectors does not fit the matrix");
  }
  std::ranges::copy(sum, sum_.begin());
  find_square();
}

}  // namespace mcnb
