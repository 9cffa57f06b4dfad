#include "mcnb/bandit/hierarchical/hierarchy.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mcnb/bandit/hierarchical/matrix_state.h"
#include "mcnb/base/check.h"
#include "mcnb/numeric/network.h"

namespace mcnb {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// How many recent rewards are learned again with every reward, after a fit beside the rounds. More
// would make batches of many rewards slow.
constexpr std::size_t kRecentPerReward = 2;

// The reciprocal condition of the matrices below which `forget` computes the shared coefficients
// from all other rewards instead.
constexpr double kSmallestConditionToSubtract = 1e-6;

constexpr double kFirstNoise = 0.1;
constexpr double kOwnConstantBesideBody = 0.001;

}  // namespace

Hierarchy::Hierarchy(FeatureMap map, ThreadPool& threads, std::size_t history_limit,
                     const BodyTraining& training, std::optional<HalfLife> half_life)
    : threads_(threads),
      history_limit_(map.body() ? 0 : history_limit),
      training_(training),
      half_life_(half_life),
      book_(std::make_shared<HistoryBook>(map.user_features(), half_life.has_value())),
      now_{.map = map, .covariance = SymmetricMatrix(map.shared_size(), 0.0)} {
  const Index own = signed_size(map.own_size());
  now_.scales.correlation = MatrixXd::Identity(own, own);
  if (map.body()) {
    now_.scales.own[static_cast<std::size_t>(FeatureGroup::kConstant)] = kOwnConstantBesideBody;
  }
  now_.prior = prior_of(map, now_.scales, kFirstNoise);
  now_.mean = VectorXd::Zero(signed_size(map.shared_size()));
  now_.covariance.assign(now_.prior.shared.asDiagonal());
}

std::size_t Hierarchy::add_learner(std::span<const float> user) {
  learners_.push_back({.epoch = epoch_});
  return book_->add_learner(user);
}

void Hierarchy::rebuild(Learner& learner, const RewardHistory& history,
                        std::span<const float> user) {
  bytes_.own -= learner.own.memory_bytes();
  learner.own.rebuild(now_.map, now_.prior, history, user, scratch_);
  learner.epoch = epoch_;
  bytes_.own += learner.own.memory_bytes();
}

void Hierarchy::keep_faded(std::size_t index) {
  drop_faded(index);
  const RewardHistory& faded = faded_.emplace(index, book_->up_to_date(index)).first->second;
  bytes_.faded += faded.memory_bytes();
}

void Hierarchy::drop_faded(std::size_t index) {
  if (const auto faded = faded_.find(index); faded != faded_.end()) {
    bytes_.faded -= faded->second.memory_bytes();
    faded_.erase(faded);
  }
}

// The learner's own part under the present scales, to be changed.
OwnLearner& Hierarchy::fresh(std::size_t index) {
  Learner& learner = learners_[index];
  book_->bring_up_to_date(index);
  drop_faded(index);
  if (learner.epoch != epoch_) {
    rebuild(learner, book_->history(index), book_->user(index));
  }
  learner.only_predicted = false;
  return learner.own;
}

// Like `fresh`, but leaves no trace in the saved state. What `fresh` computes later has the same
// bits.
const OwnLearner& Hierarchy::fresh_for_prediction(std::size_t index) {
  Learner& learner = learners_[index];
  if (learner.epoch != epoch_) {
    if (!book_->is_up_to_date(index)) {
      keep_faded(index);
    }
    rebuild(learner, history(index), book_->user(index));
    learner.only_predicted = true;
  }
  return learner.own;
}

const RewardHistory& Hierarchy::history(std::size_t index) const {
  const auto faded = faded_.find(index);
  return faded == faded_.end() ? book_->history(index) : faded->second;
}

// squares_[k] = f_k^T P f_k of all projected arms.
void Hierarchy::find_squares(const SymmetricMatrix& covariance) {
  const std::size_t length = covariance.padded_size();
  const auto count = static_cast<std::size_t>(projection_.residual.cols());
  residuals_.assign(count * length, 0.0);
  squares_.resize(count);
  const kernels::BlockRun all{0, length / kernels::kBlock};
  std::vector<kernels::BlockVector> vectors;
  for (std::size_t k = 0; k < count; ++k) {
    double* const to = residuals_.data() + k * length;
    std::copy_n(projection_.residual.col(signed_size(k)).data(), covariance.size(), to);
    vectors.push_back({to, {&all, 1}});
  }
  covariance.find_squares(threads_, vectors, squares_);
}

void Hierarchy::predict(std::size_t learner, std::span<const float> user,
                        std::span<const std::span<const float>> arms,
                        std::vector<Prediction>& predictions) {
  static const OwnLearner kNothingOwn;
  static const RewardHistory kNoRewards;
  const OwnLearner& own = learner == kNoLearner ? kNothingOwn : fresh_for_prediction(learner);
  const RewardHistory& history = learner == kNoLearner ? kNoRewards : this->history(learner);
  arms_.resize(signed_size(now_.map.shared_size()), signed_size(arms.size()));
  for (std::size_t k = 0; k < arms.size(); ++k) {
    now_.map.expand(arms[k], user, arms_.col(signed_size(k)).data(), last_hidden_);
  }
  own.project(now_.map, now_.prior, history, user, arms_, projection_, scratch_);
  find_squares(now_.covariance);
  predictions.resize(arms.size());
  const double memory = now_.prior.memory;
  for (std::size_t k = 0; k < arms.size(); ++k) {
    const Index column = signed_size(k);
    Prediction& said = predictions[k];
    said.shared = arms_.col(column).dot(now_.mean);
    said.own = projection_.residual.col(column).dot(now_.mean) + projection_.own_mean[column] -
               said.shared;
    said.memory = 0.0;
    said.variance = projection_.own_variance[column] + squares_[k];
    const std::optional<std::size_t> known = memory > 0.0 ? history.find(arms[k]) : std::nullopt;
    if (known) {
      const ArmRewards& rewards = history.rewards()[*known];
      const double trust = memory / (memory + 1.0 / rewards.count);
      said.memory = trust * (rewards.mean() - said.mean());
      said.variance = (1.0 - trust) * (1.0 - trust) * said.variance + memory * (1.0 - trust);
    } else {
      said.variance += memory;
    }
  }
}

// Moves the shared coefficients and a learner's own part by one reward.
Hierarchy::Inference Hierarchy::infer(Shared& shared, OwnLearner& own, const RewardHistory& history,
                                      std::span<const float> user, std::span<const float> arm,
                                      float reward) {
  VectorXd features(signed_size(shared.map.shared_size()));
  shared.map.expand(arm, user, features.data(), last_hidden_);
  arm_ = features;
  own.project(shared.map, shared.prior, history, user, arm_, arm_projection_, scratch_);
  Inference inference{.known = history.find(arm)};
  const OwnLearner::Step step =
      OwnLearner::next_step(inference.known ? history.rewards()[*inference.known] : ArmRewards{},
                            static_cast<double>(reward), shared.prior.memory);
  const auto residual = arm_projection_.residual.col(0);
  residuals_.assign(2 * shared.covariance.padded_size(), 0.0);
  const std::span<double> padded = std::span(residuals_).first(shared.covariance.padded_size());
  const std::span<double> gain = std::span(residuals_).last(padded.size());
  std::copy_n(residual.data(), residual.size(), padded.begin());
  shared.covariance.multiply(threads_, padded, gain);
  const Eigen::Map<VectorXd> direction(gain.data(), residual.size());
  const double own_variance = std::max(0.0, arm_projection_.own_variance[0]);  // but for rounding
  const double variance = 1.0 / step.weight + own_variance + std::max(0.0, residual.dot(direction));
  const double error = step.value - arm_projection_.own_mean[0] - residual.dot(shared.mean);
  if (step.weight >= kSmallestRewardWeight) {
    shared.mean += direction * (error / variance);
    for (double& value : gain) {
      value /= std::sqrt(variance);
    }
    shared.covariance.add_outer_products(threads_, gain, SymmetricMatrix::Sign::kMinus);
  }
  inference.rebuild =
      own.add(shared.map, history, inference.known, step, features, own_variance, scratch_);
  inference.squared_error = error * error / (variance * shared.prior.noise);
  return inference;
}

bool Hierarchy::is_full(const RewardHistory& history) const {
  return history_limit_ > 0 &&
         history.arm_count() > std::max(history_limit_, 2 * now_.map.own_size());
}

double Hierarchy::learn(std::size_t learner, std::span<const float> arm, float reward) {
  OwnLearner& own = fresh(learner);
  const std::size_t bytes_before = own.memory_bytes();
  const std::span<const float> user = book_->user(learner);
  const Inference inference = infer(now_, own, book_->history(learner), user, arm, reward);
  book_->add_reward(learner, inference.known, arm, reward);
  const RewardHistory& history = book_->history(learner);
  if (inference.rebuild) {
    own.rebuild(now_.map, now_.prior, history, user, scratch_);
  }
  bytes_.own += own.memory_bytes();
  bytes_.own -= bytes_before;
  if (is_full(history)) {
    book_->fold(learner, now_.map, now_.prior.memory);
  }
  free_garbage();
  if (fit_ || next_) {
    recent_.push_back(
        {static_cast<std::uint32_t>(learner), reward, std::vector(arm.begin(), arm.end())});
    catch_up(kRecentPerReward);
  }
  return inference.squared_error;
}

// Takes what the learner's rewards said about the shared coefficients off their precision. Returns
// false, and changes nothing, where rounding would make that inexact.
bool Hierarchy::subtract(std::size_t learner) {
  const std::span<const float> user = book_->user(learner);
  const HistoryBook::Entry entry{book_->history(learner), {user.begin(), user.end()}};
  RewardSums sums(now_.map);
  sums.add({&entry, 1}, threads_);
  Evidence evidence = sums.evidence(now_.prior, threads_);
  mirror_upper(evidence.information);
  const Eigen::LLT<MatrixXd> covariance(now_.covariance.dense());
  if (covariance.info() != Eigen::Success || covariance.rcond() < kSmallestConditionToSubtract) {
    return false;
  }
  const MatrixXd identity = MatrixXd::Identity(now_.mean.size(), now_.mean.size());
  const MatrixXd precision = covariance.solve(identity);
  const Eigen::LLT<MatrixXd> without(precision - evidence.information);
  if (without.info() != Eigen::Success || without.rcond() < kSmallestConditionToSubtract) {
    return false;
  }
  now_.covariance.assign(without.solve(identity));
  now_.mean = without.solve(precision * now_.mean - evidence.weighted);
  return true;
}

void Hierarchy::forget(std::size_t learner) {
  end_fit();
  fresh(learner);
  const bool is_done = book_->history(learner).empty() || subtract(learner);
  book_->clear(learner);
  bytes_.own -= learners_[learner].own.memory_bytes();
  learners_[learner].own.drop();
  if (!is_done) {
    const HierarchyFit others(book_, now_.map, now_.scales, now_.prior.noise, {});
    SharedPosterior posterior = others.posterior_under(now_.scales, threads_);
    now_.mean = std::move(posterior.mean);
    now_.covariance.assign(posterior.covariance);
  }
}

double Hierarchy::log_evidence(const HierarchyScales& scales) {
  return HierarchyFit(book_, now_.map, now_.scales, now_.prior.noise, {})
      .posterior_under(scales, threads_)
      .log_evidence;
}

void Hierarchy::install(const HierarchyScales& scales) {
  end_fit();
  book_->begin_fit();
  const HierarchyFit all(book_, now_.map, now_.scales, now_.prior.noise, {});
  SharedPosterior posterior = all.posterior_under(scales, threads_);
  next_ = Next{{now_.map, scales, prior_of(now_.map, scales, posterior.noise),
                std::move(posterior.mean), now_.covariance}};
  next_->shared.covariance.assign(posterior.covariance);
  switch_to_next();
}

void Hierarchy::fit(const FitOptions& options) {
  const std::shared_ptr<HierarchyFit> fit = begin_fit(options);
  fit->run(threads_);
  finish_fit(fit->result());
}

std::shared_ptr<HierarchyFit> Hierarchy::begin_fit(const FitOptions& options) {
  check(!fit_ && !next_, "one fit at a time");
  book_->begin_fit();
  FitOptions complete = options;
  complete.half_life = half_life_;
  fit_ = std::make_shared<HierarchyFit>(book_, now_.map, now_.scales, now_.prior.noise, complete,
                                        training_);
  return fit_;
}

void Hierarchy::finish_fit(std::string_view result) {
  check(fit_ != nullptr, "a fit was begun");
  if (result.empty()) {
    end_fit();
    return;
  }
  FittedPosterior found = fit_->posterior(result, threads_);
  const HierarchyPrior prior = prior_of(found.map, found.scales, found.shared.noise);
  next_ = Next{{std::move(found.map), std::move(found.scales), prior, std::move(found.shared.mean),
                now_.covariance},
               found.fading};
  half_life_ = found.half_life;
  next_->shared.covariance.assign(found.shared.covariance);
  fit_.reset();
  catch_up(0);
}

// Drops the fit in progress, or the state that is still catching up after one.
void Hierarchy::end_fit() {
  if (fit_) {
    fit_->cancel();
  }
  if (fit_ || next_) {
    garbage_ = {};
    if (next_) {
      garbage_.learners = std::move(next_->learners);
      bytes_.next = 0;
    }
    garbage_.rewards = std::exchange(recent_, {});
    garbage_.copies = book_->end_fit();
  }
  fit_.reset();
  next_.reset();
}

// Learns a reward again, under the scales of the finished fit.
void Hierarchy::learn_again(const RecentReward& recent) {
  const auto [found, is_new] = next_->learners.try_emplace(recent.learner);
  NextLearner& learner = found->second;
  RewardHistory& history = *learner.history;
  const std::size_t bytes_before = is_new ? 0 : learner.memory_bytes();
  const std::span<const float> user = book_->user(recent.learner);
  const FeatureMap& map = next_->shared.map;
  const HierarchyPrior& prior = next_->shared.prior;
  if (is_new && recent.learner < book_->size_at_fit()) {
    history = book_->at_fit(recent.learner).history;
    if (next_->fading > 0.0) {
      history.fade(std::exp2(-next_->fading));
    }
    learner.own.rebuild(map, prior, history, user, scratch_);
  }
  const Inference inference =
      infer(next_->shared, learner.own, history, user, recent.arm, recent.reward);
  if (half_life_) {
    history.begin_period(book_->period());
  }
  history.add(inference.known, recent.arm, recent.reward);
  if (inference.rebuild) {
    learner.own.rebuild(map, prior, history, user, scratch_);
  }
  if (is_full(history)) {
    history.fold(map, user, prior.memory);
  }
  bytes_.next += learner.memory_bytes();
  bytes_.next -= bytes_before;
}

void Hierarchy::catch_up(std::size_t rewards) {
  if (!next_) {
    return;
  }
  for (; rewards > 0 && next_->learned < recent_.size(); --rewards) {
    learn_again(recent_[next_->learned]);
    ++next_->learned;
  }
  if (next_->learned == recent_.size()) {
    switch_to_next();
  }
}

void Hierarchy::switch_to_next() {
  now_ = std::move(next_->shared);
  ++epoch_;
  book_->fade(next_->fading);
  for (auto& [index, learner] : next_->learners) {
    book_->replace(index, learner.history);
    bytes_.own += learner.own.memory_bytes();
    bytes_.own -= learners_[index].own.memory_bytes();
    std::swap(learners_[index].own, learner.own);
    learners_[index].epoch = epoch_;
    learners_[index].only_predicted = false;
  }
  garbage_.learners.merge(next_->learners);
  garbage_.rewards.insert(garbage_.rewards.end(), std::move_iterator(recent_.begin()),
                          std::move_iterator(recent_.end()));
  recent_.clear();
  garbage_.copies.merge(book_->end_fit());
  garbage_.faded.merge(faded_);
  faded_.clear();  // those that the garbage has already
  next_.reset();
  bytes_.faded = 0;
  bytes_.next = 0;
}

void Hierarchy::free_garbage() {
  constexpr int kAtOnce = 8;
  for (int i = 0; i < kAtOnce; ++i) {
    if (!garbage_.learners.empty()) {
      garbage_.learners.erase(garbage_.learners.begin());
    }
    if (!garbage_.faded.empty()) {
      garbage_.faded.erase(garbage_.faded.begin());
    }
    if (!garbage_.rewards.empty()) {
      garbage_.rewards.pop_back();
    }
    if (!garbage_.copies.empty()) {
      garbage_.copies.erase(garbage_.copies.begin());
    }
  }
}

std::size_t Hierarchy::memory_bytes_with(const ListBytes& bytes) const {
  std::size_t all = sizeof *this + now_.covariance.memory_bytes() +
                    3 * static_cast<std::size_t>(now_.prior.own.size()) * sizeof(double) +
                    learners_.capacity() * sizeof(Learner) + bytes.own +
                    recent_.size() * (sizeof(RecentReward) + now_.map.inputs() * sizeof(float)) +
                    faded_.size() * sizeof(RewardHistory) + bytes.faded;
  all += now_.map.body() ? now_.map.body()->memory_bytes() : 0;
  if (next_) {
    all += next_->shared.covariance.memory_bytes() + bytes.next;
  }
  return all;
}

std::size_t Hierarchy::memory_bytes() const {
  return book_->memory_bytes() + memory_bytes_with(bytes_);
}

std::size_t Hierarchy::count_memory_bytes() const {
  ListBytes bytes;
  for (const Learner& learner : learners_) {
    bytes.own += learner.own.memory_bytes();
  }
  for (const auto& [index, history] : faded_) {
    bytes.faded += history.memory_bytes();
  }
  if (next_) {
    for (const auto& [index, learner] : next_->learners) {
      bytes.next += learner.memory_bytes();
    }
  }
  return book_->count_memory_bytes() + memory_bytes_with(bytes);
}

}  // namespace mcnb
