#include "mcnb/bandit/hierarchical/learner_sums.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "mcnb/bandit/hierarchical/matrix_state.h"
#include "mcnb/bandit/hierarchical/own_learner.h"
#include "mcnb/bandit/hierarchical/user_lift.h"

namespace mcnb {
namespace {

using Eigen::VectorXd;

// Arms of a group, at least: fewer are cheaper to keep one by one, in time and in memory.
std::size_t fewest_of_group(const FeatureMap& map) {
  return std::max<std::size_t>(8, map.own_size() / 4);
}

// to += the sum of left_k right_k^T over rows; of the left rows only the first `own` numbers.
void add_outer_products(std::size_t own, const RowMatrix& left, const RowMatrix& right,
                        RowMatrix& to) {
  add_product(Operand::of(left).columns_from(0, own).transposed(), Operand::of(right), {to});
}

}  // namespace

LearnerSums::LearnerSums(const FeatureMap& map, const HistoryBook::Entry& learner)
    : is_dual_(mcnb::is_dual(map, learner.history)),
      user_(learner.user),
      rewards_(learner.history.reward_count()),
      scatter_(learner.history.squared_rewards()) {
  const RewardHistory& history = learner.history;
  for (const ArmRewards& arm : history.rewards()) {
    scatter_ -= arm.sum * arm.mean();
    log_counts_ += std::log(arm.count);
  }
  RowMatrix all;
  expand_samples(map, history, learner.user, all);
  if (is_dual_) {
    samples_ = std::move(all);
    sample_rewards_.assign(history.rewards().begin(), history.rewards().end());
  } else {
    group_arms(map, history, std::move(all));
    if (history.folded() != nullptr) {
      add_folded(*history.folded());
    }
  }
  means_ = means_of(sample_rewards_);
}

void LearnerSums::group_arms(const FeatureMap& map, const RewardHistory& history, RowMatrix all) {
  std::map<double, std::vector<std::size_t>> arms_of_count;
  for (std::size_t j = 0; j < history.arm_count(); ++j) {
    arms_of_count[history.rewards()[j].count].push_back(j);
  }
  const std::size_t own = map.own_size();
  std::vector<std::size_t> rest;
  RowMatrix features;
  for (const auto& [count, arms] : arms_of_count) {
    if (arms.size() < fewest_of_group(map)) {
      rest.insert(rest.end(), arms.begin(), arms.end());
      continue;
    }
    Group& group = groups_.emplace_back();
    group.count = count;
    group.arms = static_cast<double>(arms.size());
    features.resize(signed_size(arms.size()), all.cols());
    VectorXd means(features.rows());
    for (std::size_t k = 0; k < arms.size(); ++k) {
      features.row(signed_size(k)) = all.row(signed_size(arms[k]));
      means[signed_size(k)] = history.rewards()[arms[k]].mean();
    }
    group.squares = means.squaredNorm();
    group.information = RowMatrix::Zero(signed_size(own), all.cols());
    add_outer_products(own, features, features, group.information);
    group.weighted = features.transpose() * means;
    if (!UserLift::exists(map)) {
      group.features = features;
    }
  }
  std::ranges::sort(rest);
  samples_.resize(signed_size(rest.size()), all.cols());
  for (std::size_t k = 0; k < rest.size(); ++k) {
    samples_.row(signed_size(k)) = all.row(signed_size(rest[k]));
    sample_rewards_.push_back(history.rewards()[rest[k]]);
  }
}

void LearnerSums::add_folded(const RewardHistory::Folded& folded) {
  const Eigen::Index length = samples_.cols();
  folded_information_ = folded.information.topLeftCorner(length, length);
  folded_weighted_ = folded.weighted.head(length);
  scatter_ += folded.quadratic;
  log_counts_ += folded.log_determinant;
}

VectorXd LearnerSums::weights(double memory) const { return weights_of(sample_rewards_, memory); }

void LearnerSums::weigh(std::size_t own, double memory, Weighed& out) const {
  const VectorXd weights = this->weights(memory);
  out.scaled = weights.asDiagonal() * samples_;
  if (folded_weighted_.size() > 0) {
    out.information = folded_information_.topRows(signed_size(own));
    out.weighted = folded_weighted_;
  } else {
    out.information.setZero(signed_size(own), samples_.cols());
    out.weighted.setZero(samples_.cols());
  }
  add_outer_products(own, samples_, out.scaled, out.information);
  out.weighted.noalias() += out.scaled.transpose() * means_;
  out.squares = weights.dot(means_.cwiseProduct(means_));
  out.log_weights = weights.array().log().sum();
  for (const Group& group : groups_) {
    const double weight = group.weight(memory);
    out.information += weight * group.information;
    out.weighted += weight * group.weighted;
    out.squares += weight * group.squares;
    out.log_weights += group.arms * std::log(weight);
  }
}

void LearnerSums::add_shared(double memory, RowMatrix& information, VectorXd& weighted) const {
  const auto add = [&](const RowMatrix& features, const RowMatrix& scaled) {
    add_product(Operand::of(features).transposed(), Operand::of(scaled), {information},
                {.upper = true});
  };
  const RowMatrix scaled = weights(memory).asDiagonal() * samples_;
  add(samples_, scaled);
  weighted.noalias() += scaled.transpose() * means_;
  if (folded_weighted_.size() > 0) {
    information += folded_information_;
    weighted += folded_weighted_;
  }
  for (const Group& group : groups_) {
    if (group.features.size() > 0) {
      add(group.features, group.weight(memory) * group.features);
      weighted += group.weight(memory) * group.weighted;
    }
  }
}

}  // namespace mcnb
