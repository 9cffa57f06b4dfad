#include "mcnb/bandit/hierarchical/evidence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

using Eigen::Index;
using Eigen::LLT;
using Eigen::Lower;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Learners whose evidence one thread adds up: a number that does not depend on the threads.
std::size_t learners_per_block(std::size_t learners) {
  constexpr std::size_t kFewest = 16;
  constexpr std::size_t kMostBlocks = 64;
  return std::max(kFewest, (learners + kMostBlocks - 1) / kMostBlocks);
}

double log_determinant(const LLT<MatrixXd>& factor) {
  return 2.0 * factor.matrixLLT().diagonal().array().log().sum();
}

// The columns one after the other, each filled up with zeros to `length` numbers.
AlignedDoubles padded_columns(const MatrixXd& columns, std::size_t length) {
  const auto count = static_cast<std::size_t>(columns.cols());
  AlignedDoubles padded(length * count, 0.0);
  for (std::size_t k = 0; k < count; ++k) {
    std::copy_n(columns.col(static_cast<Index>(k)).data(), columns.rows(),
                padded.data() + k * length);
  }
  return padded;
}

// matrix += or -= the sum of the columns' outer products.
void add_squares(ThreadPool& threads, const MatrixXd& columns, SymmetricMatrix::Sign sign,
                 SymmetricMatrix& matrix) {
  matrix.add_outer_products(threads, padded_columns(columns, matrix.padded_size()), sign);
}

// matrix times every column.
MatrixXd multiply(ThreadPool& threads, const SymmetricMatrix& matrix, const MatrixXd& columns) {
  const std::size_t length = matrix.padded_size();
  const auto count = static_cast<std::size_t>(columns.cols());
  AlignedDoubles products(length * count);
  matrix.multiply(threads, padded_columns(columns, length), products);
  MatrixXd result(columns.rows(), columns.cols());
  for (std::size_t k = 0; k < count; ++k) {
    std::copy_n(products.data() + k * length, columns.rows(),
                result.col(static_cast<Index>(k)).data());
  }
  return result;
}

// A weak prior of the noise: as if two rewards with squared errors of 0.1 had been seen.
constexpr double kNoisePriorCount = 2.0;
constexpr double kNoisePriorSum = 0.2;

}  // namespace

Evidence::Evidence(std::size_t shared_size)
    : information(shared_size, 0.0), weighted(VectorXd::Zero(static_cast<Index>(shared_size))) {}

void Evidence::add(const Evidence& other) {
  information.add(other.information, SymmetricMatrix::Sign::kPlus);
  weighted += other.weighted;
  quadratic += other.quadratic;
  log_determinant += other.log_determinant;
  rewards += other.rewards;
}

RewardSums::RewardSums(const FeatureMap& map, double memory)
    : map_(&map), memory_(memory), all_(map.shared_size()) {}

void RewardSums::add(const RewardHistory& history, std::span<const float> user,
                     ThreadPool& threads) {
  if (history.empty()) {
    return;
  }
  MatrixXd samples;
  history.expand(*map_, user, samples);
  VectorXd weights = weights_of(history.rewards(), memory_);
  VectorXd means = means_of(history.rewards());
  all_.rewards += history.reward_count();
  all_.quadratic += history.squared_rewards();
  for (const ArmRewards& arm : history.rewards()) {
    all_.quadratic -= arm.sum * arm.mean();
    all_.log_determinant += std::log(arm.count);
  }
  if (is_dual(*map_, history)) {
    duals_.push_back({std::move(samples), std::move(weights), std::move(means)});
    return;
  }
  const auto own = static_cast<Index>(map_->own_size());
  const MatrixXd scaled = samples * weights.cwiseSqrt().asDiagonal();
  const VectorXd scaled_means = weights.cwiseSqrt().cwiseProduct(means);
  const VectorXd weighted = scaled * scaled_means;
  add_squares(threads, scaled, SymmetricMatrix::Sign::kPlus, all_.information);
  all_.weighted += weighted;
  all_.quadratic += scaled_means.squaredNorm();
  all_.log_determinant -= weights.array().log().sum();
  primals_.push_back({scaled.topRows(own) * scaled.transpose(), weighted.head(own)});
  if (const RewardHistory::Folded* folded = history.folded()) {
    SymmetricMatrix information(map_->shared_size(), 0.0);
    information.assign(folded->information);
    all_.information.add(information, SymmetricMatrix::Sign::kPlus);
    all_.weighted += folded->weighted;
    all_.quadratic += folded->quadratic;
    all_.log_determinant += folded->log_determinant;
    primals_.back().information += folded->information.topRows(own);
    primals_.back().weighted += folded->weighted.head(own);
  }
}

MatrixXd RewardSums::own_information() const {
  const auto own = static_cast<Index>(map_->own_size());
  MatrixXd sum = MatrixXd::Zero(own, own);
  for (const Primal& primal : primals_) {
    sum += primal.information.leftCols(own);
  }
  for (const Dual& dual : duals_) {
    const auto samples = dual.samples.topRows(own);
    sum.noalias() += samples * dual.weights.asDiagonal() * samples.transpose();
  }
  return sum;
}

Evidence RewardSums::evidence(const HierarchyPrior& prior, ThreadPool& threads) const {
  check(prior.memory == memory_, "the sums are those of the prior's memory");
  const std::size_t count = primals_.size() + duals_.size();
  const std::size_t per_block = learners_per_block(count);
  const std::size_t blocks = (count + per_block - 1) / per_block;
  std::vector<Evidence> parts(blocks, Evidence(static_cast<std::size_t>(prior.shared.size())));
  const auto own_factor = prior.own_factor.triangularView<Lower>();
  const auto add_primal = [&](const Primal& sums, Evidence& to) {
    const LLT<MatrixXd> factor(
        whitened_information(sums.information.leftCols(sums.information.rows()), prior));
    const MatrixXd half =
        factor.matrixL().solve(MatrixXd(own_factor.transpose() * sums.information));
    const VectorXd half_means =
        factor.matrixL().solve(VectorXd(own_factor.transpose() * sums.weighted));
    add_squares(threads, half.transpose(), SymmetricMatrix::Sign::kMinus, to.information);
    to.weighted.noalias() -= half.transpose() * half_means;
    to.quadratic -= half_means.squaredNorm();
    to.log_determinant += log_determinant(factor);
  };
  const auto add_dual = [&](const Dual& sums, Evidence& to) {
    const LLT<MatrixXd> factor(covariance_of_means(sums.samples, prior, sums.weights));
    const MatrixXd half = factor.matrixL().solve(MatrixXd(sums.samples.transpose()));
    const VectorXd half_means = factor.matrixL().solve(sums.means);
    add_squares(threads, half.transpose(), SymmetricMatrix::Sign::kPlus, to.information);
    to.weighted.noalias() += half.transpose() * half_means;
    to.quadratic += half_means.squaredNorm();
    to.log_determinant += log_determinant(factor);
  };
  threads.parallel_for(blocks, 1, [&](std::size_t block, std::size_t) {
    const std::size_t end = std::min((block + 1) * per_block, count);
    for (std::size_t i = block * per_block; i < end; ++i) {
      if (i < primals_.size()) {
        add_primal(primals_[i], parts[block]);
      } else {
        add_dual(duals_[i - primals_.size()], parts[block]);
      }
    }
  });
  Evidence all = all_;
  for (const Evidence& part : parts) {
    all.add(part);
  }
  return all;
}

SharedPosterior shared_posterior(const Evidence& evidence, const HierarchyPrior& prior,
                                 ThreadPool& threads) {
  const VectorXd deviations = prior.shared.cwiseSqrt();
  MatrixXd whitened =
      deviations.asDiagonal() * evidence.information.dense() * deviations.asDiagonal();
  whitened.diagonal().array() += 1.0;
  const LLT<MatrixXd> factor(whitened);
  SharedPosterior posterior{.covariance = SymmetricMatrix(evidence.information.size(), 0.0)};
  const MatrixXd half = factor.matrixL().solve(MatrixXd(deviations.asDiagonal()));
  add_squares(threads, half.transpose(), SymmetricMatrix::Sign::kPlus, posterior.covariance);
  posterior.mean =
      deviations.asDiagonal() * factor.solve(deviations.cwiseProduct(evidence.weighted));
  // Never negative but for rounding.
  const double quadratic =
      std::max(0.0, evidence.quadratic - evidence.weighted.dot(posterior.mean));
  const double count = evidence.rewards + kNoisePriorCount;
  posterior.noise = (quadratic + kNoisePriorSum) / count;
  posterior.log_evidence = -0.5 * count * std::log(posterior.noise) -
                           0.5 * (evidence.log_determinant + log_determinant(factor));
  return posterior;
}

OwnMoments RewardSums::own_moments(const HierarchyPrior& prior, const SharedPosterior& shared,
                                   ThreadPool& threads) const {
  const Index own = prior.own.rows();
  const std::size_t count = primals_.size() + duals_.size();
  const std::size_t per_block = learners_per_block(count);
  const std::size_t blocks = (count + per_block - 1) / per_block;
  const OwnMoments none{MatrixXd::Zero(own, own), MatrixXd::Zero(own, own), 0.0};
  std::vector<OwnMoments> parts(blocks, none);
  // Given the posterior covariance of the own coefficients when the shared ones are known, their
  // mean then, and how they answer to the shared ones (H C).
  const auto add = [&](const MatrixXd& covariance, const VectorXd& mean, const MatrixXd& answer,
                       OwnMoments& to) {
    to.means.noalias() += mean * mean.transpose() / shared.noise;
    to.covariances += covariance;
    to.covariances.noalias() += answer * multiply(threads, shared.covariance, answer.transpose());
    to.learners += 1.0;
  };
  const auto add_primal = [&](const Primal& sums, OwnMoments& to) {
    const LLT<MatrixXd> factor(
        whitened_information(sums.information.leftCols(sums.information.rows()), prior));
    const MatrixXd half = factor.matrixL().solve(MatrixXd(prior.own_factor.transpose()));
    const MatrixXd covariance = half.transpose() * half;
    add(covariance, covariance * (sums.weighted - sums.information * shared.mean),
        covariance * sums.information, to);
  };
  const auto add_dual = [&](const Dual& sums, OwnMoments& to) {
    const LLT<MatrixXd> factor(covariance_of_means(sums.samples, prior, sums.weights));
    const MatrixXd spread = prior.own * sums.samples.topRows(own);
    const MatrixXd gain = factor.solve(MatrixXd(spread.transpose())).transpose();
    add(prior.own - gain * spread.transpose(),
        gain * (sums.means - sums.samples.transpose() * shared.mean),
        gain * sums.samples.transpose(), to);
  };
  threads.parallel_for(blocks, 1, [&](std::size_t block, std::size_t) {
    const std::size_t end = std::min((block + 1) * per_block, count);
    for (std::size_t i = block * per_block; i < end; ++i) {
      if (i < primals_.size()) {
        add_primal(primals_[i], parts[block]);
      } else {
        add_dual(duals_[i - primals_.size()], parts[block]);
      }
    }
  });
  OwnMoments all = none;
  for (const OwnMoments& part : parts) {
    all.means += part.means;
    all.covariances += part.covariances;
    all.learners += part.learners;
  }
  return all;
}

}  // namespace mcnb
