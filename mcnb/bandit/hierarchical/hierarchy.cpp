#include "mcnb/bandit/hierarchical/hierarchy.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mcnb/bandit/hierarchical/matrix_state.h"
#include "mcnb/base/check.h"

namespace mcnb {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr std::size_t kLearnersPerTask = 16;    // that one thread rebuilds

MatrixXd inverse_of(const MatrixXd& positive) {
  return positive.llt().solve(MatrixXd::Identity(positive.rows(), positive.cols()));
}

}  // namespace

Hierarchy::Hierarchy(FeatureMap map, ThreadPool& threads)
    : map_(std::move(map)), threads_(threads), covariance_(map_.shared_size(), 0.0) {
  const Index own = signed_size(map_.own_size());
  scales_.correlation = MatrixXd::Identity(own, own);
  prior_ = prior_of(scales_);
  mean_ = VectorXd::Zero(signed_size(map_.shared_size()));
  covariance_.assign(prior_.shared.asDiagonal());
}

std::size_t Hierarchy::add_learner(std::span<const float> user) {
  learners_.emplace_back();
  user_features_.insert(user_features_.end(), user.begin(), user.end());
  return learners_.size() - 1;
}

std::span<const float> Hierarchy::user_of(std::size_t learner) const {
  const std::size_t length = learners_.empty() ? 0 : user_features_.size() / learners_.size();
  return std::span(user_features_).subspan(learner * length, length);
}

HierarchyPrior Hierarchy::prior_of(const HierarchyScales& scales) const {
  HierarchyPrior prior{.noise = prior_.noise, .memory = scales.memory};
  const std::span<const FeatureGroup> groups = map_.groups();
  prior.shared.resize(signed_size(groups.size()));
  VectorXd deviations(signed_size(map_.own_size()));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto group = static_cast<std::size_t>(groups[i]);
    prior.shared[signed_size(i)] = scales.shared[group];
    if (i < map_.own_size()) {
      deviations[signed_size(i)] = std::sqrt(scales.own[group]);
    }
  }
  prior.own = deviations.asDiagonal() * scales.correlation * deviations.asDiagonal();
  prior.own_factor = prior.own.llt().matrixL();
  return prior;
}

// squares_[k] = f_k^T P f_k of all projected arms.
void Hierarchy::find_squares() {
  const std::size_t length = covariance_.padded_size();
  const auto count = static_cast<std::size_t>(projection_.residual.cols());
  residuals_.assign(count * length, 0.0);
  squares_.resize(count);
  const kernels::BlockRun all{0, length / kernels::kBlock};
  std::vector<kernels::BlockVector> vectors;
  for (std::size_t k = 0; k < count; ++k) {
    double* const to = residuals_.data() + k * length;
    std::copy_n(projection_.residual.col(signed_size(k)).data(), map_.shared_size(), to);
    vectors.push_back({to, {&all, 1}});
  }
  covariance_.find_squares(threads_, vectors, squares_);
}

void Hierarchy::predict(std::size_t learner, std::span<const float> user,
                        std::span<const std::span<const float>> arms,
                        std::vector<Prediction>& predictions) {
  static const OwnLearner kEmpty;
  const OwnLearner& own = learner == kNoLearner ? kEmpty : learners_[learner];
  arms_.resize(signed_size(map_.shared_size()), signed_size(arms.size()));
  for (std::size_t k = 0; k < arms.size(); ++k) {
    map_.expand(arms[k], user, arms_.col(signed_size(k)).data());
  }
  own.project(map_, prior_, user, arms_, projection_, scratch_);
  find_squares();
  predictions.resize(arms.size());
  for (std::size_t k = 0; k < arms.size(); ++k) {
    const Index column = signed_size(k);
    Prediction& said = predictions[k];
    said.shared = arms_.col(column).dot(mean_);
    said.own =
        projection_.residual.col(column).dot(mean_) + projection_.own_mean[column] - said.shared;
    said.memory = 0.0;
    said.variance = projection_.own_variance[column] + squares_[k];
    const std::optional<std::size_t> known = prior_.memory > 0.0 ? own.find(arms[k]) : std::nullopt;
    if (known) {
      const ArmRewards& rewards = own.rewards()[*known];
      const double trust = prior_.memory / (prior_.memory + 1.0 / rewards.count);
      said.memory = trust * (rewards.mean() - said.mean());
      said.variance = (1.0 - trust) * (1.0 - trust) * said.variance + prior_.memory * (1.0 - trust);
    } else {
      said.variance += prior_.memory;
    }
  }
}

double Hierarchy::learn(std::size_t learner, std::span<const float> arm, float reward) {
  OwnLearner& own = learners_[learner];
  const std::span<const float> user = user_of(learner);
  arms_.resize(signed_size(map_.shared_size()), 1);
  map_.expand(arm, user, arms_.data());
  const VectorXd features = arms_.col(0);
  own.project(map_, prior_, user, arms_, projection_, scratch_);
  const std::optional<std::size_t> known = own.find(arm);
  const OwnLearner::Step step = OwnLearner::next_step(known ? own.rewards()[*known] : ArmRewards{},
                                                      static_cast<double>(reward), prior_.memory);
  const auto residual = projection_.residual.col(0);
  residuals_.assign(2 * covariance_.padded_size(), 0.0);
  const std::span<double> padded = std::span(residuals_).first(covariance_.padded_size());
  const std::span<double> gain = std::span(residuals_).last(padded.size());
  std::copy_n(residual.data(), map_.shared_size(), padded.begin());
  covariance_.multiply(threads_, padded, gain);
  const Eigen::Map<VectorXd> direction(gain.data(), residual.size());
  const double own_variance = std::max(0.0, projection_.own_variance[0]);  // but for rounding
  const double variance = 1.0 / step.weight + own_variance + std::max(0.0, residual.dot(direction));
  const double error = step.value - projection_.own_mean[0] - residual.dot(mean_);
  if (step.weight >= kSmallestRewardWeight) {
    mean_ += direction * (error / variance);
    for (double& value : gain) {
      value /= std::sqrt(variance);
    }
    covariance_.add_outer_products(threads_, gain, SymmetricMatrix::Sign::kMinus);
  }
  if (own.add(map_, prior_, arm, features, own_variance, reward, scratch_)) {
    own.rebuild(map_, prior_, user);
  }
  reward_count_ += 1.0;
  return error * error / (variance * prior_.noise);
}

// The learner's rewards leave the shared coefficients by the step that adding them would be, turned
// round: with X their features and V their covariance given w0, the rewards' covariance given all
// other rewards is V - X P X^T under the present P.
void Hierarchy::forget(std::size_t learner) {
  OwnLearner& own = learners_[learner];
  if (own.arm_count() > 0) {
    const Evidence evidence =
        RewardSums(
            map_, {&own, 1}, [&](std::size_t) { return user_of(learner); }, prior_.memory, threads_)
            .evidence(prior_, threads_);
    const MatrixXd precision = inverse_of(covariance_.dense());
    const VectorXd weighted = precision * mean_ - evidence.weighted;
    const Eigen::LLT<MatrixXd> without(precision - evidence.information.dense());
    covariance_.assign(without.solve(MatrixXd::Identity(precision.rows(), precision.cols())));
    mean_ = without.solve(weighted);
  }
  reward_count_ -= own.reward_count();
  own = OwnLearner();
}

RewardSums Hierarchy::sum_rewards(double memory) const {
  return {map_, learners_, [this](std::size_t learner) { return user_of(learner); }, memory,
          threads_};
}

void Hierarchy::install(HierarchyScales scales) {
  const RewardSums sums = sum_rewards(scales.memory);
  install(std::move(scales), sums);
}

void Hierarchy::install(HierarchyScales scales, const RewardSums& sums) {
  scales_ = std::move(scales);
  prior_ = prior_of(scales_);
  SharedPosterior posterior = shared_posterior(sums.evidence(prior_, threads_), prior_, threads_);
  mean_ = std::move(posterior.mean);
  covariance_ = std::move(posterior.covariance);
  prior_.noise = posterior.noise;
  threads_.parallel_for(learners_.size(), kLearnersPerTask,
                        [&](std::size_t begin, std::size_t end) {
                          for (std::size_t i = begin; i < end; ++i) {
                            learners_[i].rebuild(map_, prior_, user_of(i));
                          }
                        });
}

double Hierarchy::log_evidence(const HierarchyScales& scales) const {
  const HierarchyPrior prior = prior_of(scales);
  return shared_posterior(sum_rewards(scales.memory).evidence(prior, threads_), prior, threads_)
      .log_evidence;
}

std::size_t Hierarchy::memory_bytes() const {
  std::size_t bytes = sizeof *this + user_features_.capacity() * sizeof(float) +
                      covariance_.memory_bytes() + 3 * prior_.own.size() * sizeof(double) +
                      learners_.capacity() * sizeof(OwnLearner);
  for (const OwnLearner& learner : learners_) {
    bytes += learner.memory_bytes();
  }
  return bytes;
}

void Hierarchy::save(StateWriter& writer) const {
  writer.write_all(std::span<const double>(scales_.shared));
  writer.write_all(std::span<const double>(scales_.own));
  writer.write(scales_.memory);
  write_matrix(writer, scales_.correlation);
  writer.write(prior_.noise);
  write_matrix(writer, mean_);
  covariance_.save(writer);
  writer.write(reward_count_);
  writer.write_all(user_features_);
  writer.write(static_cast<std::uint64_t>(learners_.size()));
  for (const OwnLearner& learner : learners_) {
    learner.save(writer);
  }
}

void Hierarchy::load(StateReader& reader) {
  HierarchyScales scales = scales_;
  for (ByFeatureGroup<double>* by_group : {&scales.shared, &scales.own}) {
    const std::vector<double> values = reader.read_all<double>(kFeatureGroups);
    if (values.size() != kFeatureGroups) {
      reader.fail("the scales are not those of these features");
    }
    std::ranges::copy(values, by_group->begin());
  }
  scales.memory = reader.read<double>();
  read_matrix(reader, scales.correlation);
  scales_ = std::move(scales);
  prior_ = prior_of(scales_);
  prior_.noise = reader.read<double>();
  read_matrix(reader, mean_);
  covariance_.load(reader);
  reward_count_ = reader.read<double>();
  user_features_ = reader.read_all<float>(kMostNumbers);
  const auto count = reader.read<std::uint64_t>();
  learners_.clear();
  for (std::uint64_t i = 0; i < count; ++i) {
    learners_.emplace_back().load(reader, map_);
  }
}

}  // namespace mcnb
