#pragma once

#include <Eigen/Dense>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "mcnb/bandit/hierarchical/feature_map.h"
#include "mcnb/bandit/hierarchical/hierarchy_fit.h"
#include "mcnb/bandit/hierarchical/history_book.h"
#include "mcnb/bandit/hierarchical/own_learner.h"
#include "mcnb/base/state_file.h"
#include "mcnb/base/thread_pool.h"
#include "mcnb/numeric/symmetric_matrix.h"

namespace mcnb {

// A linear Gaussian model in two levels:
//
//   reward = phi(x) . w0 + phi_u(x) . delta_u + xi_{u,x} + noise
//
// w0 ~ N(0, diag(v0)) is what all users share, delta_u ~ N(0, Sigma) how user u differs, xi ~ N(0,
// tau) what is special about this very arm for this user, and noise ~ N(0, sigma^2). Inference is
// exact: after any sequence of rewards the state is the Gaussian conditional of the whole model.
//
// One learner per user (or per user and feature block). A prediction and a reward touch one learner
// and the shared coefficients: their cost does not grow with the number of users.
//
// A fit of the scales runs in place (`fit`), or on another thread while rewards go on coming
// (`begin_fit`, `finish_fit`). Rewards that come after it began are learned twice: at once under
// the old scales, and again under the new ones, a few with every further reward. When the second
// state has caught up, it replaces the first. Learners are rebuilt when they are next used.
class Hierarchy {
 public:
  // Borrows the threads. `history_limit`: the most arms of a learner that are kept apart
  // (RewardHistory::fold); 0 keeps all.
  // Features with a body are trained, as `training` says, by every fit; nothing is folded then,
  // since folded arms could not follow a new body.
  // `half_life`: where set, fits choose how rewards fade, and begin with this.
  Hierarchy(FeatureMap map, ThreadPool& threads, std::size_t history_limit = 0,
            const BodyTraining& training = {}, std::optional<HalfLife> half_life = std::nullopt);

  const FeatureMap& map() const { return now_.map; }
  const HierarchyScales& scales() const { return now_.scales; }
  const HierarchyPrior& prior() const { return now_.prior; }
  std::size_t learner_count() const { return book_->size(); }
  // As the last prediction for the learner saw it.
  const RewardHistory& history(std::size_t learner) const;
  const Eigen::VectorXd& shared_mean() const { return now_.mean; }
  // Rewards of all learners.
  double reward_count() const { return book_->reward_count(); }

  // Returns the new learner's index. `user` is the user's features, as many as the map asks for.
  std::size_t add_learner(std::span<const float> user);

  // The posterior of an arm's expected reward. Its mean is shared + own + memory.
  struct Prediction {
    double shared = 0.0;    // phi . w0
    double own = 0.0;       // phi_u . delta_u
    double memory = 0.0;    // what the learner's own rewards for this very arm add
    double variance = 0.0;  // relative to the noise's

    double mean() const { return shared + own + memory; }
  };
  // Predicts arms for a learner, or with kNoLearner for a user without rewards.
  static constexpr std::size_t kNoLearner = ~std::size_t{0};
  void predict(std::size_t learner, std::span<const float> user,
               std::span<const std::span<const float>> arms, std::vector<Prediction>& predictions);

  // Adds a reward and returns the squared error of its prediction in units of its variance.
  double learn(std::size_t learner, std::span<const float> arm, float reward);

  // Removes all of a learner's rewards: the state is then that of a model that never saw them, with
  // the same scales and noise. Ends a fit in progress, and drops the result of one that is still
  // catching up: learning everything again at once would be a pause.
  void forget(std::size_t learner);

  // The logarithm of the marginal likelihood of all rewards under other scales, up to a constant,
  // with the noise's variance that maximises it, and the prior of the scales.
  double log_evidence(const HierarchyScales& scales);
  // Computes the posterior under other scales, from all rewards. Ends a fit in progress.
  void install(const HierarchyScales& scales);
  // Chooses the scales that make the rewards most likely, starting from the present ones, and
  // installs them.
  void fit(const FitOptions& options = {});

  // As `fit`, but beside the rounds (policy.h).
  std::shared_ptr<HierarchyFit> begin_fit(const FitOptions& options);
  // The fit that `begin_fit` returned, until it is finished or ended.
  const std::shared_ptr<HierarchyFit>& fit_in_progress() const { return fit_; }
  void finish_fit(std::string_view result);  // an empty one ends the fit
  // Unless it is fixed: as the last finished fit chose it.
  const std::optional<HalfLife>& half_life() const { return half_life_; }
  // Whether rewards that came during the last fit are still being learned again.
  bool is_catching_up() const { return next_.has_value(); }

  // Kept up to date: does not look at the learners. `count_memory_bytes` does.
  std::size_t memory_bytes() const;
  std::size_t count_memory_bytes() const;
  void save(StateWriter& writer) const;
  void load(StateReader& reader);

 private:
  // The shared coefficients of the features under one prior.
  struct Shared {
    FeatureMap map;
    HierarchyScales scales;
    HierarchyPrior prior;
    Eigen::VectorXd mean;        // w0
    SymmetricMatrix covariance;  // P, relative to the noise's variance
  };
  struct Learner {
    OwnLearner own;
    std::uint32_t epoch = 0;  // the installed scales that `own` was computed under
    // `own` was computed again for predictions alone. Predictions are no part of the state: such a
    // learner is saved like one that still has to be rebuilt.
    bool only_predicted = false;
  };
  // A reward that came after a fit began.
  struct RecentReward {
    std::uint32_t learner = 0;
    float reward = 0.0F;
    std::vector<float> arm;
  };
  // A learner that has rewards since a fit began, as the fit's scales see it.
  struct NextLearner {
    OwnLearner own;
    std::shared_ptr<RewardHistory> history = std::make_shared<RewardHistory>();

    std::size_t memory_bytes() const {
      return sizeof *this + own.memory_bytes() + history->memory_bytes();
    }
  };
  // What a finished fit has replaced. Freeing all of it at once would be a pause.
  struct Garbage {
    std::map<std::uint32_t, NextLearner> learners;
    std::vector<RecentReward> rewards;
    HistoryBook::Copies copies;
    std::map<std::size_t, RewardHistory> faded;
  };
  // The state under the scales of a finished fit, while it catches up with recent rewards.
  struct Next {
    Shared shared;
    double fading = 0.0;
    std::map<std::uint32_t, NextLearner> learners;
    std::size_t learned = 0;  // of the recent rewards
  };

  // What taking in a reward has to do to the history, and the error of its prediction.
  struct Inference {
    std::optional<std::size_t> known;
    bool rebuild = false;
    double squared_error = 0.0;
  };
  Inference infer(Shared& shared, OwnLearner& own, const RewardHistory& history,
                  std::span<const float> user, std::span<const float> arm, float reward);
  bool subtract(std::size_t learner);  // a part of `forget`
  // What the learners, and lists that grow with them, hold.
  struct ListBytes {
    std::size_t own = 0;    // all learners
    std::size_t faded = 0;  // faded_
    std::size_t next = 0;   // the learners of next_
  };
  std::size_t memory_bytes_with(const ListBytes& bytes) const;
  void rebuild(Learner& learner, const RewardHistory& history, std::span<const float> user);
  void keep_faded(std::size_t learner);
  void drop_faded(std::size_t learner);
  OwnLearner& fresh(std::size_t learner);
  const OwnLearner& fresh_for_prediction(std::size_t learner);
  void find_squares(const SymmetricMatrix& covariance);
  void learn_again(const RecentReward& recent);
  void catch_up(std::size_t rewards);
  void switch_to_next();
  void end_fit();
  void free_garbage();
  bool is_full(const RewardHistory& history) const;
  void save_shared(StateWriter& writer, const Shared& shared) const;
  void load_shared(StateReader& reader, Shared& shared) const;
  void save_fit(StateWriter& writer) const;
  void load_fit(StateReader& reader);

  ThreadPool& threads_;
  std::size_t history_limit_;
  BodyTraining training_;
  std::optional<HalfLife> half_life_;
  std::shared_ptr<HistoryBook> book_;  // shared with a fit on another thread
  std::vector<Learner> learners_;
  Shared now_;
  std::uint32_t epoch_ = 0;

  std::shared_ptr<HierarchyFit> fit_;
  std::vector<RecentReward> recent_;  // since the fit began; empty without a fit
  std::optional<Next> next_;
  Garbage garbage_;
  // Faded histories of learners that were only predicted since the last fit.
  std::map<std::size_t, RewardHistory> faded_;
  ListBytes bytes_;

  Eigen::MatrixXd arms_;  // memory of predictions, to be reused
  AlignedDoubles residuals_;
  std::vector<double> squares_;
  FeatureMap::LastHidden last_hidden_;
  Projection projection_;
  Eigen::MatrixXd arm_;  // the same of one arm, whose size is another one
  Projection arm_projection_;
  ProjectionScratch scratch_;
};

}  // namespace mcnb
