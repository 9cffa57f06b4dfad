#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mcnb/bandit/hierarchical/body_training.h"
#include "mcnb/bandit/hierarchical/evidence.h"
#include "mcnb/bandit/hierarchical/half_life.h"
#include "mcnb/bandit/hierarchical/history_book.h"
#include "mcnb/bandit/policy.h"

namespace mcnb {

struct FitOptions {
  bool correlations = true;  // whether the correlation of the own coefficients is fitted
  std::size_t users = 2000;  // learners that the scales are fitted to; a random sample of more
  double fading = 0.0;       // all rewards are weighed by 2^-fading from now on
  std::uint64_t number = 0;  // of the fit; addresses its sample of learners, and its training
  // Where set, the fit chooses the next half-life. It adds to `fading` if that is a shorter one.
  std::optional<HalfLife> half_life;
  double rewards = 0.0;  // so far, of all users
};

// The posterior of the shared coefficients under scales, from all rewards when a fit began.
struct FittedPosterior {
  FeatureMap map;  // with the new body, where there is one
  HierarchyScales scales;
  SharedPosterior shared;
  double fading = 0.0;
  std::optional<HalfLife> half_life;
};

// Empirical Bayes: finds the scales of the prior that make the rewards most likely, and the
// posterior under them. Reads the histories as they were when it was made (HistoryBook::begin_fit).
//
// Features with a body: first trains the body. The scales of the hidden units and of the own
// constant stay, because on features that have seen their samples the evidence would make the noise
// vanish. Correlations are not learned from differences between users, but say where rewards have
// been seen: each learner's own part is pulled to zero there (BodyTraining::pull).
class HierarchyFit final : public BackgroundFit {
 public:
  // Starts from the present scales and noise.
  HierarchyFit(std::shared_ptr<const HistoryBook> book, FeatureMap map, HierarchyScales scales,
               double noise, const FitOptions& options, const BodyTraining& training = {});

  void run() override;
  void run(ThreadPool& threads);
  // The scales and the body, as bytes; empty after `cancel`, or if what was found is not finite.
  std::string result() const override;

  const FitOptions& options() const { return options_; }
  // Makes `run` return early, without a result. For any thread.
  void cancel() { cancelled_ = true; }

  // The posterior under the scales of a result, computed again unless this fit has found them
  // itself. Throws Error (kCorrupt) for bytes that are no result of such a fit.
  FittedPosterior posterior(std::string_view result, ThreadPool& threads);

  // Computes the posterior under given scales, and the evidence for them.
  SharedPosterior posterior_under(const HierarchyScales& scales, ThreadPool& threads) const;

 private:
  HistoryBook::Entry entry(std::size_t learner) const;
  // Adds learners, some at a time, until the fit is cancelled.
  void add_learners(std::span<const std::size_t> learners, RewardSums& sums,
                    ThreadPool& threads) const;
  SharedPosterior posterior_of(const FeatureMap& map, const HierarchyScales& scales,
                               ThreadPool& threads) const;
  std::shared_ptr<const FeatureBody> train(ThreadPool& threads) const;
  void choose_sample();
  void choose_half_life(const HierarchyPrior& prior, ThreadPool& threads);
  double log_predictive(std::span<const std::size_t> learners, double weight,
                        const HierarchyPrior& prior, ThreadPool& threads) const;
  std::vector<std::size_t> compared_learners() const;
  // Requires the evidence under `scales`, and leaves it.
  void improve_memory(const FeatureMap& map, const RewardSums& sums, HierarchyScales& scales,
                      Evidence& evidence, ThreadPool& threads) const;

  const std::shared_ptr<const HistoryBook> book_;
  const FeatureMap map_;
  const HierarchyScales start_;
  const double noise_;
  const FitOptions options_;
  const BodyTraining training_;
  const std::size_t learners_;
  const std::uint64_t period_;
  double fading_;
  std::optional<HalfLife> half_life_;
  std::vector<std::size_t> sample_;  // learners, ascending
  std::optional<FittedPosterior> found_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace mcnb
