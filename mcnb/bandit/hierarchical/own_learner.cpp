#include "mcnb/bandit/hierarchical/own_learner.h"

#include <cmath>
#include <utility>

#include "mcnb/bandit/hierarchical/matrix_state.h"
#include "mcnb/bandit/hierarchical/user_lift.h"

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

// Takes the arms as they are, but for what own coefficients explain of their features.
void subtract_explained(const FeatureMap& map, std::span<const float> user, const MatrixXd& arms,
                        const RowMatrix& explained, MatrixXd& residual) {
  if (!UserLift::exists(map)) {
    residual = arms - explained.transpose();
    return;
  }
  const UserLift lift(map, user);
  residual = arms;
  for (Index k = 0; k < arms.cols(); ++k) {
    lift.subtract_lifted(explained.row(k).transpose(), residual.col(k));
  }
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

MatrixXd covariance_of_means(const RowMatrix& samples, const HierarchyPrior& prior,
                             const VectorXd& weights) {
  const auto own_samples = samples.leftCols(prior.own.rows()).transpose();
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

void OwnLearner::unpack_dual(std::size_t arms, RowMatrix& out) const {
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
  const auto rows = static_cast<std::size_t>(arms.rows());
  const Operand own_arms{arms.data(), static_cast<std::size_t>(arms.cols()), map.own_size(), rows,
                         1};
  if (primal_) {
    project_primal(own_arms, out, scratch);
  } else {
    project_dual(map, prior, history, user, own_arms, out, scratch);
    if (history.empty()) {
      out.residual = arms;
      return;
    }
  }
  subtract_explained(map, user, arms, scratch.explained, out.residual);
}

void OwnLearner::project_primal(const Operand& own_arms, Projection& out,
                                ProjectionScratch& scratch) const {
  const Index count = signed_size(own_arms.rows);
  scratch.direction.setZero(count, primal_->covariance.cols());
  add_product(own_arms, Operand::of(primal_->covariance), {scratch.direction});
  scratch.explained.setZero(count, primal_->information.cols());
  add_product(Operand::of(scratch.direction), Operand::of(primal_->information),
              {scratch.explained});
  out.own_variance = row_dots(own_arms, scratch.direction);
  out.own_mean = scratch.direction * primal_->weighted;
}

void OwnLearner::project_dual(const FeatureMap& map, const HierarchyPrior& prior,
                              const RewardHistory& history, std::span<const float> user,
                              const Operand& own_arms, Projection& out,
                              ProjectionScratch& scratch) const {
  const Index count = signed_size(own_arms.rows);
  const Index own = prior.own.rows();
  const auto own_size = static_cast<std::size_t>(own);
  scratch.prior_arms.setZero(count, own);
  // Symmetric, so that columns are rows.
  const Operand own_covariance{prior.own.data(), own_size, own_size, own_size, 1};
  add_product(own_arms, own_covariance, {scratch.prior_arms});
  out.own_variance = row_dots(own_arms, scratch.prior_arms);
  if (history.empty()) {
    out.own_mean = VectorXd::Zero(count);
    return;
  }
  const Operand samples = Operand::of(samples_of(map, history, user, scratch.samples))
                              .rows_from(0, history.arm_count());
  const Index arms = signed_size(history.arm_count());
  unpack_dual(history.arm_count(), scratch.dual);
  scratch.turned = scratch.prior_arms.transpose();
  scratch.overlaps.setZero(arms, count);
  add_product(samples.columns_from(0, own_size), Operand::of(scratch.turned), {scratch.overlaps});
  scratch.direction.setZero(count, arms);
  add_product(Operand::of(scratch.overlaps).transposed(), Operand::of(scratch.dual),
              {scratch.direction});
  scratch.explained.setZero(count, signed_size(samples.columns));
  add_product(Operand::of(scratch.direction), samples, {scratch.explained});
  out.own_variance -= scratch.overlaps.transpose().cwiseProduct(scratch.direction).rowwise().sum();
  out.own_mean = scratch.direction * means_of(history.rewards());
}

// The features of the history's arms, in the first rows of the result.
const RowMatrix& OwnLearner::samples_of(const FeatureMap& map, const RewardHistory& history,
                                        std::span<const float> user, RowMatrix& room) const {
  if (map.body()) {
    return *samples_;
  }
  expand_samples(map, history, user, room);
  return room;
}

void OwnLearner::keep_sample(std::size_t index, const FeatureMap& map, const VectorXd& features) {
  const Index kept = signed_size(sample_size(map));
  if (!samples_) {
    samples_ = std::make_unique<RowMatrix>();
  }
  if (index >= static_cast<std::size_t>(samples_->rows())) {
    samples_->conservativeResize(signed_size(index + index / 4 + 1), kept);
  }
  samples_->row(signed_size(index)) = features.head(kept).transpose();
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
      const VectorXd direction = scratch.direction.row(0).transpose() / std::sqrt(scale);
      const auto own = features.head(signed_size(map.own_size()));
      const auto kept = features.head(primal_->information.cols());
      primal_->covariance.noalias() -= direction * direction.transpose();
      primal_->information.noalias() += (step.weight * own) * kept.transpose();
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
      *to++ += scratch.direction(0, row) * scratch.direction(0, other) / scale;
    }
  }
  for (Eigen::Index other = 0; other < size; ++other) {
    push_tightly(dual_, -scratch.direction(0, other) / scale);
  }
  push_tightly(dual_, 1.0 / scale);
  if (map.body()) {
    keep_sample(history.arm_count(), map, features);
  }
  return history.arm_count() + 1 >= map.own_size();
}

VectorXd OwnLearner::mean(const FeatureMap& map, const HierarchyPrior& prior,
                          const RewardHistory& history, std::span<const float> user,
                          const VectorXd& shared) const {
  const VectorXd known = UserLift::exists(map) ? UserLift(map, user).restricted(shared) : shared;
  if (primal_) {
    return primal_->covariance * (primal_->weighted - primal_->information * known);
  }
  if (history.empty()) {
    return VectorXd::Zero(prior.own.rows());
  }
  RowMatrix room;
  const auto samples =
      samples_of(map, history, user, room).topRows(signed_size(history.arm_count()));
  RowMatrix dual;
  unpack_dual(history.arm_count(), dual);
  const VectorXd rest = means_of(history.rewards()) - samples * known;
  return prior.own * (samples.leftCols(prior.own.rows()).transpose() * (dual * rest));
}

void OwnLearner::drop() {
  dual_ = std::vector<double>();  // frees it, unlike = {}
  samples_.reset();
  primal_.reset();
}

void OwnLearner::rebuild(const FeatureMap& map, const HierarchyPrior& prior,
                         const RewardHistory& history, std::span<const float> user) {
  drop();
  if (history.empty()) {
    return;
  }
  RowMatrix samples;
  expand_samples(map, history, user, samples);
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
      samples_ = std::make_unique<RowMatrix>(std::move(samples));
    }
    return;
  }
  const Index own = signed_size(map.own_size());
  const RowMatrix weighted = weights.asDiagonal() * samples;
  primal_ = std::make_unique<Primal>();
  primal_->information = RowMatrix::Zero(own, samples.cols());
  add_product(Operand::of(samples).columns_from(0, map.own_size()).transposed(),
              Operand::of(weighted), {primal_->information});
  primal_->weighted.noalias() = weighted.leftCols(own).transpose() * means_of(history.rewards());
  if (const RewardHistory::Folded* folded = history.folded()) {
    primal_->information += folded->information.topLeftCorner(own, samples.cols());
    primal_->weighted += folded->weighted.head(own);
  }
  const Eigen::LLT<MatrixXd> factor(
      whitened_information(primal_->information.leftCols(own), prior));
  const MatrixXd half = factor.matrixL().solve(MatrixXd(prior.own_factor.transpose()));
  primal_->covariance.noalias() = half.transpose() * half;
}

std::size_t OwnLearner::memory_bytes() const {
  std::size_t bytes = dual_.capacity() * sizeof(double);
  if (samples_) {
    bytes += sizeof *samples_ + static_cast<std::size_t>(samples_->size()) * sizeof(double);
  }
  if (primal_) {
    bytes +=
        sizeof *primal_ + sizeof(double) * static_cast<std::size_t>(primal_->covariance.size() +
                                                                    primal_->information.size() +
                                                                    primal_->weighted.size());
  }
  return bytes;
}

// States have all columns of C, and matrices column by column.
void OwnLearner::save(StateWriter& writer, const FeatureMap& map,
                      std::span<const float> user) const {
  writer.write(static_cast<std::uint8_t>(primal_ != nullptr));
  if (primal_) {
    const MatrixXd information = UserLift::exists(map)
                                     ? UserLift(map, user).expanded(primal_->information)
                                     : MatrixXd(primal_->information);
    write_matrix(writer, MatrixXd(primal_->covariance));
    write_matrix(writer, information);
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
    MatrixXd covariance(own, own);
    MatrixXd information(own, signed_size(map.shared_size()));
    VectorXd weighted(own);
    read_matrix(reader, covariance);
    read_matrix(reader, information);
    read_matrix(reader, weighted);
    primal_ = std::make_unique<Primal>(
        Primal{covariance, information.leftCols(signed_size(sample_size(map))), weighted});
    return;
  }
  dual_ = reader.read_all<double>(arms * (arms + 1) / 2);
  if (dual_.size() != arms * (arms + 1) / 2 || (arms > 0 && arms >= map.own_size())) {
    reader.fail("a learner's parts do not fit together");
  }
  if (map.body() && arms > 0) {
    samples_ = std::make_unique<RowMatrix>();
    expand_samples(map, history, user, *samples_);
  }
}

}  // namespace mcnb
