#include "mcnb/bandit/hierarchical/evidence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mcnb/bandit/hierarchical/learner_pass.h"
#include "mcnb/bandit/hierarchical/matrix_state.h"

namespace mcnb {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

// Learners whose evidence one thread adds up: a number that does not depend on the threads.
std::size_t learners_per_block(std::size_t learners) {
  constexpr std::size_t kFewest = 16;
  constexpr std::size_t kMostBlocks = 64;
  return std::max(kFewest, (learners + kMostBlocks - 1) / kMostBlocks);
}

// Calls add(learner index, part) for all learners, block by block on the threads, and returns the
// parts. Each block adds to a part of its own, a copy of `none`.
template <class Part, class Make>
std::vector<Part> for_blocks(std::size_t learners, const Part& none, ThreadPool& threads,
                             const Make& make_pass) {
  const std::size_t per_block = learners_per_block(learners);
  std::vector<Part> parts((learners + per_block - 1) / per_block, none);
  threads.parallel_for(parts.size(), 1, [&](std::size_t block, std::size_t) {
    auto add = make_pass();
    const std::size_t end = std::min((block + 1) * per_block, learners);
    for (std::size_t i = block * per_block; i < end; ++i) {
      add(i, parts[block]);
    }
  });
  return parts;
}

// Different numbers of rewards whose arms are summed over all learners. Where there are more, as
// with faded rewards, the others are summed again for every prior.
constexpr std::size_t kMostTotals = 32;

// A weak prior of the noise: as if two rewards with squared errors of 0.1 had been seen.
constexpr double kNoisePriorCount = 2.0;
constexpr double kNoisePriorSum = 0.2;

// [D A D + I | D b], factored, D the prior deviations.
RowMatrix solve_shared(const Evidence& evidence, const VectorXd& deviations, Misfit& misfit) {
  const Index size = deviations.size();
  RowMatrix system(size, size + 1);
  system.leftCols(size) = deviations.asDiagonal() * evidence.information * deviations.asDiagonal();
  system.leftCols(size).diagonal().array() += 1.0;
  system.col(size) = deviations.cwiseProduct(evidence.weighted);
  const double log_determinant = factor_system(system);
  // Never negative but for rounding.
  const double rest = evidence.quadratic - system.col(size).squaredNorm();
  misfit = {.squares = rest < 0.0 ? 0.0 : rest,
            .log_determinant = evidence.log_determinant + log_determinant,
            .rewards = evidence.rewards};
  return system;
}

}  // namespace

Evidence::Evidence(std::size_t shared_size)
    : information(RowMatrix::Zero(signed_size(shared_size), signed_size(shared_size))),
      weighted(VectorXd::Zero(signed_size(shared_size))) {}

void Evidence::add(const Evidence& other) {
  information += other.information;
  weighted += other.weighted;
  quadratic += other.quadratic;
  log_determinant += other.log_determinant;
  rewards += other.rewards;
}

OwnMoments::OwnMoments(std::size_t own_size)
    : means(RowMatrix::Zero(signed_size(own_size), signed_size(own_size))), covariances(means) {}

SharedPosterior shared_posterior(const Evidence& evidence, const HierarchyPrior& prior) {
  const VectorXd deviations = prior.shared.cwiseSqrt();
  const Index size = deviations.size();
  const auto unsigned_size = static_cast<std::size_t>(size);
  SharedPosterior posterior;
  Misfit misfit;
  RowMatrix system = solve_shared(evidence, deviations, misfit);
  posterior.noise = misfit.noise();
  posterior.log_evidence = misfit.log_evidence();
  RowMatrix half(size, size);
  kernels::invert_factor(unsigned_size, system.data(), unsigned_size + 1, half.data(),
                         unsigned_size);
  kernels::solve_upper(unsigned_size, system.data(), unsigned_size + 1, 1,
                       system.data() + unsigned_size, unsigned_size + 1);
  posterior.mean = deviations.cwiseProduct(system.col(size));
  half = half * deviations.asDiagonal();
  posterior.covariance = RowMatrix::Zero(size, size);
  add_product(Operand::of(half).transposed(), Operand::of(half), {posterior.covariance},
              {.upper = true, .a_is_upper = true});
  mirror_upper(posterior.covariance);
  return posterior;
}

double Misfit::noise() const { return (squares + kNoisePriorSum) / (rewards + kNoisePriorCount); }

double Misfit::log_evidence() const {
  return -0.5 * (rewards + kNoisePriorCount) * std::log(noise()) - 0.5 * log_determinant;
}

Misfit misfit(const Evidence& evidence, const HierarchyPrior& prior) {
  Misfit misfit;
  solve_shared(evidence, prior.shared.cwiseSqrt(), misfit);
  return misfit;
}

void RewardSums::add(std::span<const HistoryBook::Entry> learners, ThreadPool& threads) {
  const std::size_t begin = learners_.size();
  std::vector<const HistoryBook::Entry*> entries;
  for (const HistoryBook::Entry& learner : learners) {
    if (!learner.history.empty()) {
      entries.push_back(&learner);
    }
  }
  learners_.resize(begin + entries.size());
  threads.parallel_for(entries.size(), 16, [&](std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) {
      learners_[begin + i] = LearnerSums(*map_, *entries[i]);
    }
  });
  for (std::size_t i = begin; i < learners_.size(); ++i) {
    add_totals(learners_[i]);
  }
}

void RewardSums::add_totals(LearnerSums& learner) {
  for (LearnerSums::Group& group : learner.groups()) {
    const bool has_room = totals_.size() < kMostTotals || totals_.contains(group.count);
    if (group.features.size() == 0 || !has_room) {
      continue;
    }
    const Index size = group.features.cols();
    Total& total =
        totals_.try_emplace(group.count, RowMatrix::Zero(size, size), VectorXd::Zero(size))
            .first->second;
    add_product(Operand::of(group.features).transposed(), Operand::of(group.features),
                {total.information}, {.upper = true});
    total.weighted += group.weighted;
    group.features.resize(0, 0);
  }
}

RowMatrix RewardSums::own_information(double memory) const {
  const std::size_t own = map_->own_size();
  RowMatrix sum = RowMatrix::Zero(signed_size(own), signed_size(own));
  LearnerSums::Weighed weighed;
  for (const LearnerSums& learner : learners_) {
    learner.weigh(own, memory, weighed);
    sum += weighed.information.leftCols(signed_size(own));
  }
  return sum;
}

Evidence RewardSums::evidence(const HierarchyPrior& prior, ThreadPool& threads) const {
  const PassPrior pass_prior(prior);
  const auto make_pass = [&] {
    return [&, pass = LearnerPass(*map_, pass_prior)](std::size_t i, Evidence& to) mutable {
      pass.add_evidence(learners_[i], to);
    };
  };
  Evidence all(map_->shared_size());
  for (const Evidence& part : for_blocks(learners_.size(), all, threads, make_pass)) {
    all.add(part);
  }
  for (const auto& [count, total] : totals_) {
    const double weight = ArmRewards{count, 0.0}.weight(prior.memory);
    all.information += weight * total.information;
    all.weighted += weight * total.weighted;
  }
  return all;
}

OwnMoments RewardSums::own_moments(const HierarchyPrior& prior, const SharedPosterior& shared,
                                   ThreadPool& threads) const {
  const PassPrior pass_prior(prior);
  const auto make_pass = [&] {
    return [&, pass = LearnerPass(*map_, pass_prior)](std::size_t i, OwnMoments& to) mutable {
      pass.add_moments(learners_[i], shared, to);
    };
  };
  OwnMoments all(map_->own_size());
  for (const OwnMoments& part : for_blocks(learners_.size(), all, threads, make_pass)) {
    all.means += part.means;
    all.covariances += part.covariances;
    all.learners += part.learners;
  }
  mirror_upper(all.covariances);
  return all;
}

}  // namespace mcnb
