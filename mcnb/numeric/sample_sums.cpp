#include "mcnb/numeric/sample_sums.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

// squares += the sum of x x^T over the rows, in the lower half.
template <class Rows>
void add_squares(const Rows& rows, Eigen::MatrixXd& squares) {
  squares.selfadjointView<Eigen::Lower>().rankUpdate(rows.transpose());
}

}  // namespace

SampleSums::Rows SampleSums::rows() const {
  using FloatRows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const FloatRows>(values_.data(), static_cast<Eigen::Index>(rewards_.size()),
                                     static_cast<Eigen::Index>(dimension_))
      .cast<double>();
}

Eigen::VectorXd SampleSums::rewards() const {
  return Eigen::Map<const Eigen::VectorXf>(rewards_.data(),
                                           static_cast<Eigen::Index>(rewards_.size()))
      .cast<double>();
}

void SampleSums::add(std::span<const float> x, float reward) {
  check(x.size() == dimension_, "a sample has the dimension of the sums");
  values_.insert(values_.end(), x.begin(), x.end());
  rewards_.push_back(reward);
  if (rewards_.size() < dimension_) {
    return;
  }
  squares_ = all_squares();
  sum_ = whole_sum();
  summed_ += rewards_.size();
  values_.clear();
  rewards_.clear();
}

void SampleSums::merge(const SampleSums& other) {
  check(other.dimension_ == dimension_, "merged sums have the same dimension");
  if (other.summed_ > 0) {
    if (summed_ == 0) {
      squares_ = other.squares_;
      sum_ = other.sum_;
    } else {
      squares_ += other.squares_;
      sum_ += other.sum_;
    }
    summed_ += other.summed_;
  }
  for (std::size_t i = 0; i < other.rewards_.size(); ++i) {
    add(std::span(other.values_).subspan(i * dimension_, dimension_), other.rewards_[i]);
  }
}

Eigen::MatrixXd SampleSums::all_squares() const {
  const auto d = static_cast<Eigen::Index>(dimension_);
  Eigen::MatrixXd squares = summed_ > 0 ? squares_ : Eigen::MatrixXd::Zero(d, d);
  if (!rewards_.empty()) {
    add_squares(rows(), squares);
  }
  return squares;
}

Eigen::VectorXd SampleSums::whole_sum() const {
  const auto d = static_cast<Eigen::Index>(dimension_);
  Eigen::VectorXd sum = summed_ > 0 ? sum_ : Eigen::VectorXd::Zero(d);
  if (!rewards_.empty()) {
    sum.noalias() += rows().transpose() * rewards();
  }
  return sum;
}

Eigen::VectorXd SampleSums::weights(double lambda) const {
  if (count() == 0) {
    return Eigen::VectorXd::Zero(static_cast<Eigen::Index>(dimension_));
  }
  if (summed_ == 0) {
    // The same by way of the samples' inner products: w = X^T (lambda I + X X^T)^-1 r.
    const Rows x = rows();
    Eigen::MatrixXd products = lambda * Eigen::MatrixXd::Identity(x.rows(), x.rows());
    products.selfadjointView<Eigen::Lower>().rankUpdate(x);
    const Eigen::LLT<Eigen::MatrixXd> cholesky(products);
    if (cholesky.info() == Eigen::Success) {
      return x.transpose() * cholesky.solve(rewards());
    }
  } else {
    Eigen::MatrixXd m = all_squares();
    m.diagonal().array() += lambda;
    const Eigen::LLT<Eigen::MatrixXd> cholesky(m);
    if (cholesky.info() == Eigen::Success) {
      return cholesky.solve(whole_sum());
    }
  }
  return ridge(lambda).weights();  // which knows what to do where lambda is lost in the rounding
}

RidgeState SampleSums::ridge(double lambda) const {
  RidgeState state(dimension_, lambda);
  if (count() > 0) {
    Eigen::MatrixXd squares = all_squares();
    squares.triangularView<Eigen::StrictlyUpper>() = squares.transpose();
    state.add_sums(squares, whole_sum(), count());
  }
  return state;
}

std::size_t SampleSums::memory_bytes() const {
  return (values_.capacity() + rewards_.capacity()) * sizeof(float) +
         static_cast<std::size_t>(squares_.size() + sum_.size()) * sizeof(double);
}

void SampleSums::save(StateWriter& writer) const {
  writer.write_all(values_);
  writer.write_all(rewards_);
  writer.write(summed_);
  writer.write_bytes(squares_.data(), static_cast<std::size_t>(squares_.size()) * sizeof(double));
  writer.write_bytes(sum_.data(), static_cast<std::size_t>(sum_.size()) * sizeof(double));
}

void SampleSums::load(StateReader& reader) {
  const auto finite = [](const auto& values) {
    return std::ranges::all_of(values, [](auto value) { return std::isfinite(value); });
  };
  values_ = reader.read_all<float>(dimension_ * dimension_);
  rewards_ = reader.read_all<float>(dimension_ - 1);
  summed_ = reader.read<std::uint64_t>();
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  if (values_.size() != rewards_.size() * dimension_ || !finite(values_) || !finite(rewards_) ||
      summed_ > kMost) {
    reader.fail("samples do not fit together");
  }
  const auto d = static_cast<Eigen::Index>(summed_ > 0 ? dimension_ : 0);
  squares_.resize(d, d);
  sum_.resize(d);
  reader.read_bytes(squares_.data(), static_cast<std::size_t>(squares_.size()) * sizeof(double));
  reader.read_bytes(sum_.data(), static_cast<std::size_t>(sum_.size()) * sizeof(double));
  if (!squares_.allFinite() || !sum_.allFinite()) {
    reader.fail("sums of samples are not finite");
  }
}

}  // namespace mcnb
