#pragma once

#include <Eigen/Dense>
#include <cstddef>
#include <span>
#include <vector>

#include "mcnb/bandit/hierarchical/feature_map.h"
#include "mcnb/bandit/hierarchical/history_book.h"
#include "mcnb/bandit/hierarchical/row_matrix.h"

namespace mcnb {

// The rewards of one learner, in the form from which the evidence of any prior is computed. Where
// all features are linear in the own ones (UserLift), sums and samples have own features only,
// otherwise shared ones.
class LearnerSums {
 public:
  // Arms whose mean rewards count alike, whatever the memory's variance is: they have the same
  // number of rewards. Sums over them, each arm weighing 1.
  struct Group {
    double count = 0.0;        // rewards of each arm
    double arms = 0.0;         // their number
    double squares = 0.0;      // sum of mean^2
    RowMatrix information;     // sum of phi_u phi^T
    Eigen::VectorXd weighted;  // sum of mean phi
    // The arms' features, a row each, if these are shared ones and nobody else has summed them yet.
    RowMatrix features;

    double weight(double memory) const { return ArmRewards{count, 0.0}.weight(memory); }
  };

  LearnerSums() = default;
  LearnerSums(const FeatureMap& map, const HistoryBook::Entry& learner);

  // With fewer arms than own features: then nothing is summed (own_learner.h).
  bool is_dual() const { return is_dual_; }
  std::span<const float> user() const { return user_; }
  // Of all rewards: their number, the sum of squares about the means of their arms, and the sum of
  // the logarithms of the arms' numbers of rewards.
  double rewards() const { return rewards_; }
  double scatter() const { return scatter_; }
  double log_counts() const { return log_counts_; }

  // The arms that are in no group; of a learner in dual form all arms.
  const RowMatrix& samples() const { return samples_; }  // a row of features each
  const Eigen::VectorXd& means() const { return means_; }
  Eigen::VectorXd weights(double memory) const;
  std::span<Group> groups() { return groups_; }

  // For a learner in primal form: C and t, of all its arms, under a variance of the memory.
  struct Weighed {
    RowMatrix information;
    Eigen::VectorXd weighted;
    double squares = 0.0;      // sum of omega mean^2
    double log_weights = 0.0;  // sum of ln omega
    RowMatrix scaled;          // memory to be reused
  };
  void weigh(std::size_t own, double memory, Weighed& out) const;

  // Where features are shared ones: adds the sum of omega phi phi^T to the upper half, and that of
  // omega mean phi, of all arms but those of groups without features.
  void add_shared(double memory, RowMatrix& information, Eigen::VectorXd& weighted) const;

 private:
  void group_arms(const FeatureMap& map, const RewardHistory& history, RowMatrix all);
  void add_folded(const RewardHistory::Folded& folded);

  bool is_dual_ = false;
  std::vector<float> user_;
  double rewards_ = 0.0;
  double scatter_ = 0.0;
  double log_counts_ = 0.0;
  std::vector<Group> groups_;
  RowMatrix samples_;
  std::vector<ArmRewards> sample_rewards_;
  Eigen::VectorXd means_;
  // Sums over folded arms, whose weight does not change any more; empty without any.
  RowMatrix folded_information_;
  Eigen::VectorXd folded_weighted_;
};

}  // namespace mcnb
