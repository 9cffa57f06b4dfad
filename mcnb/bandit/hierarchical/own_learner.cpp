#include "mcnb/bandit/hierarchical/own_learner.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mcnb/bandit/hierarchical/matrix_state.h"
#include "mcnb/base/hash.h"
#include "mcnb/numeric/network.h"

namespace mcnb {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

std::uint64_t hash_of(std::span<const float> arm) {
  return hash_bytes({reinterpret_cast<const char*>(arm.data()), arm.size_bytes()});
}

}  // namespace

VectorXd weights_of(std::span<const ArmRewards> rewards, double memory) {
  VectorXd weights(signed_size(rewards.size()));
  for (std::size_t j = 0; j < rewards.size(); ++j) {
    weights[signed_size(j)] = rewards[j].weight(memory);
  }
  return weights;
}

VectorXd means_of(std::span<const ArmRewards> rewards) {
  VectorXd means(signed_size(rewards.size()));
  for (std::size_t j = 0; j < rewards.size(); ++j) {
    means[signed_size(j)] = rewards[j].mean();
  }
  return means;
}

MatrixXd covariance_of_means(const MatrixXd& samples, const HierarchyPrior& prior,
                             const VectorXd& weights) {
  const auto own_samples = samples.topRows(prior.own.rows());
  const MatrixXd scaled = prior.own_factor.transpose().triangularView<Eigen::Upper>() * own_samples;
  MatrixXd covariance = scaled.transpose() * scaled;
  covariance.diagonal() += weights.cwiseInverse();
  return covariance;
}

MatrixXd whitened_information(const MatrixXd& information, const HierarchyPrior& prior) {
  const auto factor = prior.own_factor.triangularView<Eigen::Lower>();
  const MatrixXd half = information * factor;
  MatrixXd whitened = factor.transpose() * half;
  whitened.diagonal().array() += 1.0;
  return whitened;
}

std::optional<std::size_t> OwnLearner::find(std::span<const float> arm) const {
  const std::uint64_t hash = hash_of(arm);
  for (auto at = hashes_.begin(); (at = std::find(at, hashes_.end(), hash)) != hashes_.end();
       ++at) {
    const auto index = static_cast<std::size_t>(at - hashes_.begin());
    if (std::memcmp(this->arm(index).data(), arm.data(), arm.size_bytes()) == 0) {
      return index;
    }
  }
  return std::nullopt;
}

void OwnLearner::expand_samples(const FeatureMap& map, std::span<const float> user,
                                MatrixXd& out) const {
  out.resize(signed_size(map.shared_size()), signed_size(arm_count()));
  for (std::size_t j = 0; j < arm_count(); ++j) {
    map.expand(arm(j), user, out.col(signed_size(j)).data());
  }
}

void OwnLearner::unpack_dual(MatrixXd& out) const {
  const Eigen::Index size = signed_size(arm_count());
  out.resize(size, size);
  const double* from = dual_.data();
  for (Eigen::Index row = 0; row < size; ++row) {
    for (Eigen::Index column = 0; column <= row; ++column) {
      out(row, column) = out(column, row) = *from++;
    }
  }
}

void OwnLearner::project(const FeatureMap& map, const HierarchyPrior& prior,
                         std::span<const float> user, const MatrixXd& arms, Projection& out,
                         ProjectionScratch& scratch) const {
  const auto own_arms = arms.topRows(signed_size(map.own_size()));
  if (primal_) {
    scratch.direction.noalias() = primal_->covariance * own_arms;
    out.residual = arms;
    out.residual.noalias() -= primal_->information.transpose() * scratch.direction;
    out.own_variance = own_arms.cwiseProduct(scratch.direction).colwise().sum();
    out.own_mean.noalias() = scratch.direction.transpose() * primal_->weighted;
    return;
  }
  scratch.prior_arms.noalias() = prior.own * own_arms;
  out.residual = arms;
  out.own_variance = own_arms.cwiseProduct(scratch.prior_arms).colwise().sum();
  out.own_mean = VectorXd::Zero(arms.cols());
  if (arm_count() == 0) {
    return;
  }
  expand_samples(map, user, scratch.samples);
  unpack_dual(scratch.dual);
  scratch.overlaps.noalias() =
      scratch.samples.topRows(own_arms.rows()).transpose() * scratch.prior_arms;
  scratch.direction.noalias() = scratch.dual * scratch.overlaps;
  out.residual.noalias() -= scratch.samples * scratch.direction;
  out.own_variance -= scratch.overlaps.cwiseProduct(scratch.direction).colwise().sum().transpose();
  out.own_mean.noalias() = scratch.direction.transpose() * means_of(rewards_);
}

OwnLearner::Step OwnLearner::next_step(const ArmRewards& before, double reward, double memory) {
  const double n = before.count;
  return {.weight = 1.0 / ((1.0 + n * memory) * (1.0 + (n + 1.0) * memory)),
          .value = reward + memory * (n * reward - before.sum)};
}

bool OwnLearner::add(const FeatureMap& map, const HierarchyPrior& prior, std::span<const float> arm,
                     const VectorXd& features, double own_variance, float reward,
                     ProjectionScratch& scratch) {
  const std::optional<std::size_t> known = find(arm);
  const ArmRewards before = known ? rewards_[*known] : ArmRewards{};
  const Step step = next_step(before, static_cast<double>(reward), prior.memory);
  const double scale = 1.0 / step.weight + own_variance;
  if (primal_) {
    if (step.weight >= kSmallestRewardWeight) {
      const VectorXd direction = scratch.direction.col(0) / std::sqrt(scale);
      const auto own = features.head(signed_size(map.own_size()));
      primal_->covariance.noalias() -= direction * direction.transpose();
      primal_->information.noalias() += (step.weight * own) * features.transpose();
      primal_->weighted += step.weight * step.value * own;
    }
  } else if (known) {
    unpack_dual(scratch.dual);
    const double change = 1.0 / (before.count + 1.0) - 1.0 / before.count;
    const VectorXd column = scratch.dual.col(signed_size(*known));
    const double factor = change / (1.0 + change * column[signed_size(*known)]);
    double* to = dual_.data();
    for (Eigen::Index row = 0; row < column.size(); ++row) {
      for (Eigen::Index other = 0; other <= row; ++other) {
        *to++ -= factor * column[row] * column[other];
      }
    }
  } else {
    double* to = dual_.data();
    const Eigen::Index size = signed_size(arm_count());
    for (Eigen::Index row = 0; row < size; ++row) {
      for (Eigen::Index other = 0; other <= row; ++other) {
        *to++ += scratch.direction(row, 0) * scratch.direction(other, 0) / scale;
      }
    }
    for (Eigen::Index other = 0; other < size; ++other) {
      dual_.push_back(-scratch.direction(other, 0) / scale);
    }
    dual_.push_back(1.0 / scale);
  }
  if (!known) {
    values_.insert(values_.end(), arm.begin(), arm.end());
    rewards_.emplace_back();
    hashes_.push_back(hash_of(arm));
  }
  ArmRewards& mine = rewards_[known.value_or(rewards_.size() - 1)];
  mine.count += 1.0;
  mine.sum += static_cast<double>(reward);
  reward_count_ += 1.0;
  squared_rewards_ += static_cast<double>(reward) * static_cast<double>(reward);
  return !primal_ && arm_count() >= map.own_size();
}

void OwnLearner::rebuild(const FeatureMap& map, const HierarchyPrior& prior,
                         std::span<const float> user) {
  dual_.clear();
  primal_.reset();
  if (arm_count() == 0) {
    return;
  }
  MatrixXd samples;
  expand_samples(map, user, samples);
  const VectorXd weights = weights_of(rewards_, prior.memory);
  if (arm_count() < map.own_size()) {
    const Eigen::LLT<MatrixXd> factor(covariance_of_means(samples, prior, weights));
    const MatrixXd dual = factor.solve(MatrixXd::Identity(weights.size(), weights.size()));
    for (Eigen::Index row = 0; row < dual.rows(); ++row) {
      for (Eigen::Index column = 0; column <= row; ++column) {
        dual_.push_back(dual(row, column));
      }
    }
    return;
  }
  const MatrixXd weighted_own = samples.topRows(signed_size(map.own_size())) * weights.asDiagonal();
  primal_ = std::make_unique<Primal>();
  primal_->information.noalias() = weighted_own * samples.transpose();
  primal_->weighted.noalias() = weighted_own * means_of(rewards_);
  const Eigen::LLT<MatrixXd> factor(
      whitened_information(primal_->information.leftCols(weighted_own.rows()), prior));
  const MatrixXd half = factor.matrixL().solve(MatrixXd(prior.own_factor.transpose()));
  primal_->covariance.noalias() = half.transpose() * half;
}

std::size_t OwnLearner::memory_bytes() const {
  std::size_t bytes =
      values_.capacity() * sizeof(float) + rewards_.capacity() * sizeof(ArmRewards) +
      hashes_.capacity() * sizeof(std::uint64_t) + dual_.capacity() * sizeof(double);
  if (primal_) {
    bytes +=
        sizeof *primal_ + sizeof(double) * static_cast<std::size_t>(primal_->covariance.size() +
                                                                    primal_->information.size() +
                                                                    primal_->weighted.size());
  }
  return bytes;
}

void OwnLearner::save(StateWriter& writer) const {
  writer.write_all(values_);
  writer.write_all(rewards_);
  writer.write(reward_count_);
  writer.write(squared_rewards_);
  writer.write(static_cast<std::uint8_t>(primal_ != nullptr));
  if (primal_) {
    write_matrix(writer, primal_->covariance);
    write_matrix(writer, primal_->information);
    write_matrix(writer, primal_->weighted);
  } else {
    writer.write_all(dual_);
  }
}

void OwnLearner::load(StateReader& reader, const FeatureMap& map) {
  values_ = reader.read_all<float>(kMostNumbers);
  rewards_ = reader.read_all<ArmRewards>(kMostNumbers);
  reward_count_ = reader.read<double>();
  squared_rewards_ = reader.read<double>();
  if (values_.size() != rewards_.size() * map.inputs()) {
    reader.fail("a learner's arms do not have the length of these features");
  }
  const bool sound = std::ranges::all_of(rewards_, [](const ArmRewards& arm) {
    return std::isfinite(arm.count) && arm.count > 0.0 && std::isfinite(arm.sum);
  });
  if (!sound || !all_finite(values_)) {
    reader.fail("a learner has a reward or an arm that is not finite");
  }
  hashes_.clear();
  for (std::size_t j = 0; j < rewards_.size(); ++j) {
    hashes_.push_back(hash_of(arm(j)));
  }
  dual_.clear();
  primal_.reset();
  if (reader.read<std::uint8_t>() != 0) {
    const Index own = signed_size(map.own_size());
    const Index shared = signed_size(map.shared_size());
    primal_ =
        std::make_unique<Primal>(Primal{MatrixXd(own, own), MatrixXd(own, shared), VectorXd(own)});
    read_matrix(reader, primal_->covariance);
    read_matrix(reader, primal_->information);
    read_matrix(reader, primal_->weighted);
    return;
  }
  dual_ = reader.read_all<double>(rewards_.size() * (rewards_.size() + 1) / 2);
  if (dual_.size() != rewards_.size() * (rewards_.size() + 1) / 2 ||
      rewards_.size() >= map.own_size()) {
    reader.fail("a learner's parts do not fit together");
  }
}

}  // namespace mcnb
