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
  const auto used = explained.topLeftCorner(arms.cols(), signed_size(sample_size(map))).transpose();
  if (!UserLift::exists(map)) {
    residual = arms - used;
    return;
  }
  const UserLift lift(map, user);
  residual = arms;
  for (Index k = 0; k < arms.cols(); ++k) {
    lift.subtract_lifted(used.col(k), residual.col(k));
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

MatrixXd whitened_information(const MatrixXd& information, const HierarchyPrior& prior) {
  const auto factor = prior.own_factor.triangularView<Eigen::Lower>();
  const MatrixXd half = information * factor;
  MatrixXd whitened = factor.transpose() * half;
  whitened.diagonal().array() += 1.0;
  return whitened;
}

void OwnLearner::unpack_dual(std::size_t arms, RowMatrix& out) const {
  const Eigen::Index size = signed_size(arms);
  make_room(out, arms, arms);
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
  const std::size_t count = own_arms.rows;
  const std::size_t own = own_arms.columns;
  const auto kept = static_cast<std::size_t>(primal_->information.cols());
  make_zeros(scratch.direction, count, own);
  add_product(own_arms, Operand::of(primal_->covariance), {scratch.direction});
  const Operand direction = Operand::of(scratch.direction, count, own);
  make_zeros(scratch.explained, count, kept);
  add_product(direction, Operand::of(primal_->information), {scratch.explained});
  out.own_variance = row_dots(own_arms, direction);
  out.own_mean =
      scratch.direction.topLeftCorner(signed_size(count), signed_size(own)) * primal_->weighted;
}

void OwnLearner::project_dual(const FeatureMap& map, const HierarchyPrior& prior,
                              const RewardHistory& history, std::span<const float> user,
                              const Operand& own_arms, Projection& out,
                              ProjectionScratch& scratch) const {
  const std::size_t count = own_arms.rows;
  const std::size_t own = own_arms.columns;
  make_zeros(scratch.prior_arms, count, own);
  // Symmetric, so that columns are rows.
  add_product(own_arms, {prior.own.data(), own, own, own, 1}, {scratch.prior_arms});
  out.own_variance = row_dots(own_arms, Operand::of(scratch.prior_arms, count, own));
  if (history.empty()) {
    out.own_mean = VectorXd::Zero(signed_size(count));
    return;
  }
  const std::size_t arms = history.arm_count();
  const Operand samples =
      Operand::of(samples_of(map, history, user, scratch.samples), arms, sample_size(map));
  unpack_dual(arms, scratch.dual);
  make_room(scratch.turned, own, count);
  const auto used_count = signed_size(count);
  const auto used_arms = signed_size(arms);
  scratch.turned.topLeftCorner(signed_size(own), used_count) =
      scratch.prior_arms.topLeftCorner(used_count, signed_size(own)).transpose();
  make_zeros(scratch.overlaps, arms, count);
  add_product(samples.columns_from(0, own), Operand::of(scratch.turned, own, count),
              {scratch.overlaps});
  make_zeros(scratch.direction, count, arms);
  add_product(Operand::of(scratch.overlaps, arms, count).transposed(),
              Operand::of(scratch.dual, arms, arms), {scratch.direction});
  const auto direction = scratch.direction.topLeftCorner(used_count, used_arms);
  make_zeros(scratch.explained, count, samples.columns);
  add_product(Operand::of(scratch.direction, count, arms), samples, {scratch.explained});
  out.own_variance -= scratch.overlaps.topLeftCorner(used_arms, used_count)
                          .transpose()
                          .cwiseProduct(direction)
                          .rowwise()
                          .sum();
  out.own_mean = direction * means_of(history.rewards());
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
      const auto own = features.head(signed_size(map.own_size()));
      const VectorXd direction =
          scratch.direction.row(0).head(own.size()).transpose() / std::sqrt(scale);
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
    const VectorXd column =
        scratch.dual.col(signed_size(*known)).head(signed_size(history.arm_count()));
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
  const auto samples = samples_of(map, history, user, room)
                           .topLeftCorner(signed_size(history.arm_count()), known.size());
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
                         const RewardHistory& history, std::span<const float> user,
                         ProjectionScratch& scratch) {
  samples_.reset();
  primal_.reset();
  if (history.empty()) {
    drop();
    return;
  }
  if (is_dual(map, history)) {
    expand_samples(map, history, user, scratch.samples);
    rebuild_dual(map, prior, history, scratch);
    return;
  }
  drop();
  RowMatrix samples;
  expand_samples(map, history, user, samples);
  rebuild_primal(map, prior, history, samples);
}

void OwnLearner::rebuild_dual(const FeatureMap& map, const HierarchyPrior& prior,
                              const RewardHistory& history, ProjectionScratch& scratch) {
  const std::size_t arms = history.arm_count();
  const std::size_t own = map.own_size();
  const Operand samples = Operand::of(scratch.samples, arms, own);
  const auto used = signed_size(arms);
  make_zeros(scratch.prior_arms, arms, own);
  add_product(samples, {prior.own.data(), own, own, own, 1}, {scratch.prior_arms});
  make_room(scratch.turned, own, arms);
  scratch.turned.topLeftCorner(signed_size(own), used) =
      scratch.samples.topLeftCorner(used, signed_size(own)).transpose();
  make_zeros(scratch.system, arms, arms);
  add_product(Operand::of(scratch.prior_arms, arms, own), Operand::of(scratch.turned, own, arms),
              {scratch.system}, {.upper = true});
  scratch.system.diagonal().head(used) +=
      weights_of(history.rewards(), prior.memory).cwiseInverse();
  const auto stride = static_cast<std::size_t>(scratch.system.cols());
  kernels::factor(arms, arms, scratch.system.data(), stride);
  make_room(scratch.inverse, arms, arms);
  kernels::invert_factor(arms, scratch.system.data(), stride, scratch.inverse.data(),
                         static_cast<std::size_t>(scratch.inverse.cols()));
  make_zeros(scratch.dual, arms, arms);
  const Operand inverse = Operand::of(scratch.inverse, arms, arms);
  add_product(inverse.transposed(), inverse, {scratch.dual}, {.upper = true, .a_is_upper = true});
  const std::size_t size = arms * (arms + 1) / 2;
  if (dual_.capacity() < size || dual_.capacity() > size + size / 4) {
    dual_ = std::vector<double>();  // frees it, unlike = {}
    dual_.reserve(size);
  }
  dual_.clear();
  for (Index row = 0; row < used; ++row) {
    for (Index column = 0; column <= row; ++column) {
      dual_.push_back(scratch.dual(column, row));
    }
  }
  if (map.body()) {
    samples_ = std::make_unique<RowMatrix>(
        scratch.samples.topLeftCorner(used, signed_size(sample_size(map))));
  }
}

void OwnLearner::rebuild_primal(const FeatureMap& map, const HierarchyPrior& prior,
                                const RewardHistory& history, const RowMatrix& samples) {
  const Index own = signed_size(map.own_size());
  const RowMatrix weighted = weights_of(history.rewards(), prior.memory).asDiagonal() * samples;
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
