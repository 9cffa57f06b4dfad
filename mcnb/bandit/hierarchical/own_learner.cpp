#include "mcnb/bandit/hierarchical/own_learner.h"

#include <cmath>
#include <utility>

#include "mcnb/bandit/hierarchical/matrix_state.h"

namespace mcnb {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Grows by an eighth, because there may be millions of learners.
void push_tightly(std::vector<double>& list, double value) {
  if (list.size() == list.capacity()) {
    list.reserve(list.size() + list.size() / 8 + 1);
  }
  list.push_back(value);
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

void OwnLearner::unpack_dual(std::size_t arms, MatrixXd& out) const {
  const Eigen::Index size = signed_size(arms);
  out.resize(size, size);
  const double* from = dual_.data();
  for (Eigen::Index row = 0; row < size; ++row) {
    for (Eigen::Index column = 0; column <= row; ++column) {
      out(row, column) = out(column, row) = *from++;
    }
  }
}

void OwnLearner::project(const FeatureMap& map, const HierarchyPrior& prior,
                         const RewardHistory& history, std::span<const float> user,
                         const MatrixXd& arms, Projection& out, ProjectionScratch& scratch) const {
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
  if (history.empty()) {
    return;
  }
  const auto samples =
      samples_of(map, history, user, scratch.samples).leftCols(signed_size(history.arm_count()));
  unpack_dual(history.arm_count(), scratch.dual);
  scratch.overlaps.noalias() = samples.topRows(own_arms.rows()).transpose() * scratch.prior_arms;
  scratch.direction.noalias() = scratch.dual * scratch.overlaps;
  out.residual.noalias() -= samples * scratch.direction;
  out.own_variance -= scratch.overlaps.cwiseProduct(scratch.direction).colwise().sum().transpose();
  out.own_mean.noalias() = scratch.direction.transpose() * means_of(history.rewards());
}

// The shared features of the history's arms, in the first columns of the result.
const MatrixXd& OwnLearner::samples_of(const FeatureMap& map, const RewardHistory& history,
                                       std::span<const float> user, MatrixXd& room) const {
  if (map.body()) {
    return samples_;
  }
  history.expand(map, user, room);
  return room;
}

void OwnLearner::keep_sample(std::size_t index, const VectorXd& features) {
  if (index >= static_cast<std::size_t>(samples_.cols())) {
    samples_.conservativeResize(features.size(), signed_size(index + index / 4 + 1));
  }
  samples_.col(signed_size(index)) = features;
}

OwnLearner::Step OwnLearner::next_step(const ArmRewards& before, double reward, double memory) {
  const double n = before.count;
  return {.weight = 1.0 / ((1.0 + n * memory) * (1.0 + (n + 1.0) * memory)),
          .value = reward + memory * (n * reward - before.sum)};
}

bool OwnLearner::add(const FeatureMap& map, const RewardHistory& history,
                     std::optional<std::size_t> known, const Step& step, const VectorXd& features,
                     double own_variance, ProjectionScratch& scratch) {
  const double scale = 1.0 / step.weight + own_variance;
  if (primal_) {
    if (step.weight >= kSmallestRewardWeight) {
      const VectorXd direction = scratch.direction.col(0) / std::sqrt(scale);
      const auto own = features.head(signed_size(map.own_size()));
      primal_->covariance.noalias() -= direction * direction.transpose();
      primal_->information.noalias() += (step.weight * own) * features.transpose();
      primal_->weighted += step.weight * step.value * own;
    }
    return false;
  }
  if (known) {
    const double count = history.rewards()[*known].count;
    unpack_dual(history.arm_count(), scratch.dual);
    const double change = 1.0 / (count + 1.0) - 1.0 / count;
    const VectorXd column = scratch.dual.col(signed_size(*known));
    const double factor = change / (1.0 + change * column[signed_size(*known)]);
    double* to = dual_.data();
    for (Eigen::Index row = 0; row < column.size(); ++row) {
      for (Eigen::Index other = 0; other <= row; ++other) {
        *to++ -= factor * column[row] * column[other];
      }
    }
    return false;
  }
  double* to = dual_.data();
  const Eigen::Index size = signed_size(history.arm_count());
  for (Eigen::Index row = 0; row < size; ++row) {
    for (Eigen::Index other = 0; other <= row; ++other) {
      *to++ += scratch.direction(row, 0) * scratch.direction(other, 0) / scale;
    }
  }
  for (Eigen::Index other = 0; other < size; ++other) {
    push_tightly(dual_, -scratch.direction(other, 0) / scale);
  }
  push_tightly(dual_, 1.0 / scale);
  if (map.body()) {
    keep_sample(history.arm_count(), features);
  }
  return history.arm_count() + 1 >= map.own_size();
}

VectorXd OwnLearner::mean(const FeatureMap& map, const HierarchyPrior& prior,
                          const RewardHistory& history, std::span<const float> user,
                          const VectorXd& shared) const {
  if (primal_) {
    return primal_->covariance * (primal_->weighted - primal_->information * shared);
  }
  if (history.empty()) {
    return VectorXd::Zero(prior.own.rows());
  }
  MatrixXd room;
  const auto samples =
      samples_of(map, history, user, room).leftCols(signed_size(history.arm_count()));
  MatrixXd dual;
  unpack_dual(history.arm_count(), dual);
  const VectorXd rest = means_of(history.rewards()) - samples.transpose() * shared;
  return prior.own * (samples.topRows(prior.own.rows()) * (dual * rest));
}

void OwnLearner::drop() {
  dual_ = {};
  samples_.resize(0, 0);
  primal_.reset();
}

void OwnLearner::rebuild(const FeatureMap& map, const HierarchyPrior& prior,
                         const RewardHistory& history, std::span<const float> user) {
  drop();
  if (history.empty()) {
    return;
  }
  MatrixXd samples;
  history.expand(map, user, samples);
  const VectorXd weights = weights_of(history.rewards(), prior.memory);
  if (is_dual(map, history)) {
    const Eigen::LLT<MatrixXd> factor(covariance_of_means(samples, prior, weights));
    const MatrixXd dual = factor.solve(MatrixXd::Identity(weights.size(), weights.size()));
    dual_.reserve(history.arm_count() * (history.arm_count() + 1) / 2);
    for (Eigen::Index row = 0; row < dual.rows(); ++row) {
      for (Eigen::Index column = 0; column <= row; ++column) {
        dual_.push_back(dual(row, column));
      }
    }
    if (map.body()) {
      samples_ = std::move(samples);
    }
    return;
  }
  const Index own = signed_size(map.own_size());
  const MatrixXd weighted_own = samples.topRows(own) * weights.asDiagonal();
  primal_ = std::make_unique<Primal>();
  primal_->information.noalias() = weighted_own * samples.transpose();
  primal_->weighted.noalias() = weighted_own * means_of(history.rewards());
  if (const RewardHistory::Folded* folded = history.folded()) {
    primal_->information += folded->information.topRows(own);
    primal_->weighted += folded->weighted.head(own);
  }
  const Eigen::LLT<MatrixXd> factor(
      whitened_information(primal_->information.leftCols(own), prior));
  const MatrixXd half = factor.matrixL().solve(MatrixXd(prior.own_factor.transpose()));
  primal_->covariance.noalias() = half.transpose() * half;
}

std::size_t OwnLearner::memory_bytes() const {
  std::size_t bytes =
      (dual_.capacity() + static_cast<std::size_t>(samples_.size())) * sizeof(double);
  if (primal_) {
    bytes +=
        sizeof *primal_ + sizeof(double) * static_cast<std::size_t>(primal_->covariance.size() +
                                                                    primal_->information.size() +
                                                                    primal_->weighted.size());
  }
  return bytes;
}

void OwnLearner::save(StateWriter& writer) const {
  writer.write(static_cast<std::uint8_t>(primal_ != nullptr));
  if (primal_) {
    write_matrix(writer, primal_->covariance);
    write_matrix(writer, primal_->information);
    write_matrix(writer, primal_->weighted);
  } else {
    writer.write_all(dual_);
  }
}

void OwnLearner::load(StateReader& reader, const FeatureMap& map, const RewardHistory& history,
                      std::span<const float> user) {
  drop();
  const std::size_t arms = history.arm_count();
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
  dual_ = reader.read_all<double>(arms * (arms + 1) / 2);
  if (dual_.size() != arms * (arms + 1) / 2 || (arms > 0 && arms >= map.own_size())) {
    reader.fail("a learner's parts do not fit together");
  }
  if (map.body() && arms > 0) {
    history.expand(map, user, samples_);
  }
}

}  // namespace mcnb
