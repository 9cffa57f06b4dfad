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

// In exact arithmetic all pivots of lambda I + squares are at least lambda. A factor is useless if
// rounding leaves less, or if the rounding error is as large as a pivot.
bool is_sound_pivot(double pivot, double largest, double lambda) {
  constexpr double kRounding = 1e-13;
  return pivot >= lambda / 2.0 && pivot > kRounding * largest;
}

bool keeps_lambda(const Eigen::LLT<Eigen::MatrixXd>& cholesky, double lambda) {
  if (cholesky.info() != Eigen::Success) {
    return false;
  }
  const Eigen::ArrayXd pivots = cholesky.matrixLLT().diagonal().array().square();
  return is_sound_pivot(pivots.minCoeff(), pivots.maxCoeff(), lambda);
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
    // Uses the samples' inner products: w = X^T (lambda I + X X^T)^-1 r.
    const Rows x = rows();
    Eigen::MatrixXd products = lambda * Eigen::MatrixXd::Identity(x.rows(), x.rows());
    products.selfadjointView<Eigen::Lower>().rankUpdate(x);
    const Eigen::LLT<Eigen::MatrixXd> cholesky(products);
    if (keeps_lambda(cholesky, lambda)) {
      return x.transpose() * cholesky.solve(rewards());
    }
  } else {
    Eigen::MatrixXd m = all_squares();
    m.diagonal().array() += lambda;
    const Eigen::LLT<Eigen::MatrixXd> cholesky(m);
    if (keeps_lambda(cholesky, lambda)) {
      return cholesky.solve(whole_sum());
    }
  }
  return ridge(lambda).weights();  // this handles a lambda that is lost in the rounding
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

TrackedWeights::TrackedWeights(std::size_t dimension, double lambda)
    : lambda_(lambda),
      samples_(dimension),
      weights_(Eigen::VectorXd::Zero(static_cast<Eigen::Index>(dimension))) {}

void TrackedWeights::forget_factor() {
  rows_.clear();
  factor_.resize(0, 0);
}

void TrackedWeights::add(std::span<const float> x, float reward) {
  const bool was_summed = samples_.summed_ > 0;
  const bool was_tracked = samples_.count() == 0 || !rows_.empty() || factor_.size() > 0;
  const bool followed = was_tracked && (was_summed || append_row(x));
  samples_.add(x, reward);
  if (was_summed && followed) {
    update_factor(Eigen::Map<const Eigen::VectorXf>(x.data(), static_cast<Eigen::Index>(x.size()))
                      .cast<double>());
  } else if (!followed || samples_.summed_ > 0) {
    factorise();
  }
  solve();
}

// Appends a row to the factor of lambda I + X X^T for a sample that is about to be added. Returns
// false if rounding leaves nothing of lambda.
bool TrackedWeights::append_row(std::span<const float> x) {
  const std::size_t count = samples_.rewards_.size();
  const auto as_vector = [](std::span<const float> values) {
    return Eigen::Map<const Eigen::VectorXf>(values.data(),
                                             static_cast<Eigen::Index>(values.size()))
        .cast<double>();
  };
  const Eigen::VectorXd own = as_vector(x);
  Eigen::VectorXd row(static_cast<Eigen::Index>(count + 1));
  const double* start = rows_.data();
  for (std::size_t i = 0; i < count; ++i) {
    const auto length = static_cast<Eigen::Index>(i);
    const double product =
        as_vector(std::span(samples_.values_).subspan(i * x.size(), x.size())).dot(own);
    const double known = Eigen::Map<const Eigen::VectorXd>(start, length).dot(row.head(length));
    row[length] = (product - known) / start[i];
    start += i + 1;
  }
  const auto last = static_cast<Eigen::Index>(count);
  const double left = lambda_ + own.squaredNorm() - row.head(last).squaredNorm();
  if (!is_sound_pivot(left, lambda_ + own.squaredNorm(), lambda_)) {
    return false;
  }
  row[last] = std::sqrt(left);
  rows_.insert(rows_.end(), row.begin(), row.end());
  return true;
}

// L L^T += x x^T, by a rotation for each column.
void TrackedWeights::update_factor(Eigen::VectorXd x) {
  const Eigen::Index d = factor_.rows();
  for (Eigen::Index k = 0; k < d; ++k) {
    const double length = std::hypot(factor_(k, k), x[k]);
    const double cosine = factor_(k, k) / length;
    const double sine = x[k] / length;
    factor_(k, k) = length;
    const Eigen::Index below = d - k - 1;
    auto column = factor_.col(k).tail(below);
    auto rest = x.tail(below);
    column = (cosine * column + sine * rest).eval();
    rest = ((rest - sine * column) / cosine).eval();
  }
}

void TrackedWeights::factorise() {
  forget_factor();
  if (samples_.count() == 0) {
    return;
  }
  const bool summed = samples_.summed_ > 0;
  Eigen::MatrixXd m;
  if (summed) {
    m = samples_.all_squares();
  } else {
    const SampleSums::Rows x = samples_.rows();
    m = Eigen::MatrixXd::Zero(x.rows(), x.rows());
    m.selfadjointView<Eigen::Lower>().rankUpdate(x);
  }
  m.diagonal().array() += lambda_;
  const Eigen::LLT<Eigen::MatrixXd> cholesky(m);
  if (!keeps_lambda(cholesky, lambda_)) {
    return;
  }
  if (summed) {
    factor_ = cholesky.matrixL();
    return;
  }
  const Eigen::MatrixXd lower = cholesky.matrixL();
  for (Eigen::Index i = 0; i < lower.rows(); ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) {
      rows_.push_back(lower(i, j));
    }
  }
}

void TrackedWeights::solve() {
  if (factor_.size() > 0) {
    weights_ = samples_.whole_sum();
    factor_.triangularView<Eigen::Lower>().solveInPlace(weights_);
    factor_.triangularView<Eigen::Lower>().transpose().solveInPlace(weights_);
    return;
  }
  if (rows_.empty()) {
    weights_ = samples_.weights(lambda_);
    return;
  }
  // w = X^T z, L L^T z = r
  Eigen::VectorXd z = samples_.rewards();
  const double* start = rows_.data();
  for (Eigen::Index i = 0; i < z.size(); ++i) {
    z[i] = (z[i] - Eigen::Map<const Eigen::VectorXd>(start, i).dot(z.head(i))) / start[i];
    start += i + 1;
  }
  weights_.setZero();
  const auto d = static_cast<Eigen::Index>(samples_.dimension_);
  for (Eigen::Index i = z.size() - 1; i >= 0; --i) {
    start -= i + 1;
    z[i] /= start[i];
    z.head(i) -= z[i] * Eigen::Map<const Eigen::VectorXd>(start, i);
    weights_ +=
        z[i] * Eigen::Map<const Eigen::VectorXf>(samples_.values_.data() + i * d, d).cast<double>();
  }
}

std::size_t TrackedWeights::memory_bytes() const {
  return samples_.memory_bytes() +
         (rows_.capacity() + static_cast<std::size_t>(factor_.size() + weights_.size())) *
             sizeof(double);
}

void TrackedWeights::save(StateWriter& writer) const {
  samples_.save(writer);
  writer.write_all(rows_);
  writer.write_all(std::span(factor_.data(), static_cast<std::size_t>(factor_.size())));
}

void TrackedWeights::load(StateReader& reader) {
  samples_.load(reader);
  const std::size_t kept = samples_.rewards_.size();
  const std::size_t d = samples_.dimension_;
  rows_ = reader.read_all<double>(samples_.summed_ > 0 ? 0 : kept * (kept + 1) / 2);
  const std::vector<double> factor = reader.read_all<double>(samples_.summed_ > 0 ? d * d : 0);
  const auto positive_diagonal = [&] {
    for (std::size_t i = 0, start = 0; start < rows_.size(); ++i, start += i) {
      if (!(rows_[start + i] > 0.0)) {
        return false;
      }
    }
    for (std::size_t i = 0; i * d < factor.size(); ++i) {
      if (!(factor[i * d + i] > 0.0)) {
        return false;
      }
    }
    return true;
  };
  const auto finite = [](double value) { return std::isfinite(value); };
  if ((!rows_.empty() && rows_.size() != kept * (kept + 1) / 2) ||
      (!factor.empty() && factor.size() != d * d) || !std::ranges::all_of(rows_, finite) ||
      !std::ranges::all_of(factor, finite) || !positive_diagonal()) {
    reader.fail("the factor of a regression is not a Cholesky factor");
  }
  const auto size = static_cast<Eigen::Index>(factor.empty() ? 0 : d);
  factor_ = Eigen::Map<const Eigen::MatrixXd>(factor.data(), size, size);
  solve();
}

}  // namespace mcnb
