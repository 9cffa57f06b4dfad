#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "mcnb/bandit/hierarchical/reward_history.h"

namespace mcnb {

// The histories of all learners, and the features of their users.
//
// One thread owns the book and changes it. While a fit is in progress, another thread may read the
// histories as they were when the fit began (`at_fit`): the first change of a history after that
// keeps what it was. A history that another thread is reading is not changed but replaced by a
// changed copy, so that the owner never waits for a reader.
class HistoryBook {
 public:
  // `user_features`: how many numbers each user has. With periods, histories know which rewards
  // have come since the last fit began (RewardHistory::begin_period).
  explicit HistoryBook(std::size_t user_features, bool has_periods = false)
      : user_features_count_(user_features), has_periods_(has_periods) {}

  // For the owner.
  std::size_t size() const { return histories_.size(); }
  const RewardHistory& history(std::size_t learner) const { return *histories_[learner]; }
  std::span<const float> user(std::size_t learner) const;
  double reward_count() const;  // of all learners
  // Kept up to date: does not look at the learners. `count_memory_bytes` does.
  std::size_t memory_bytes() const;
  std::size_t count_memory_bytes() const;

  bool has_periods() const { return has_periods_; }
  std::uint64_t period() const { return period_; }
  // The period that ended when the last fit began. For any thread.
  std::uint64_t ended_period() const;

  // Returns the index of a new learner.
  std::size_t add_learner(std::span<const float> user);
  void add_reward(std::size_t learner, std::optional<std::size_t> known, std::span<const float> arm,
                  float reward);
  void fold(std::size_t learner, const FeatureMap& map, double memory);
  void clear(std::size_t learner);

  // Weighs the rewards of all learners less, by the factor 2^-exponent. A history follows when
  // `bring_up_to_date` is called for it; until then it is as it was.
  void fade(double exponent) { exponent_ += exponent; }
  void bring_up_to_date(std::size_t learner);
  bool is_up_to_date(std::size_t learner) const { return exponents_[learner] == exponent_; }
  // What `bring_up_to_date` would make of a history.
  RewardHistory up_to_date(std::size_t learner) const;

  // From now on `at_fit` answers as the histories are now.
  void begin_fit();
  // Histories that have changed since a fit began, as they were then, by learner.
  using Copies = std::map<std::uint32_t, std::shared_ptr<RewardHistory>>;
  // Returns the copies, which nobody needs any more. Freeing thousands takes its time.
  Copies end_fit();
  // Exchanges a learner's history with `history`, which has the rewards since the fit began and has
  // faded.
  void replace(std::size_t learner, std::shared_ptr<RewardHistory>& history);

  // A learner as it was when the fit began, with rewards faded until then.
  struct Entry {
    RewardHistory history;
    std::vector<float> user;
  };
  // For any thread. Requires a learner that existed then.
  Entry at_fit(std::size_t learner) const;
  // The number of learners that existed when the fit began.
  std::size_t size_at_fit() const;

  void save(StateWriter& writer) const;
  void load(StateReader& reader, const FeatureMap& map);

 private:
  // Requires the lock. Changes a learner's history by change(history); keeps a copy of what it was
  // if this is the first change since a fit began.
  template <class Change>
  void change(std::size_t learner, const Change& change);
  RewardHistory& changeable(std::size_t learner);
  std::size_t memory_bytes_with(std::size_t history_bytes, std::size_t copied_bytes) const;

  const std::size_t user_features_count_;
  const bool has_periods_;
  std::uint64_t period_ = 1;  // grows whenever a fit begins
  mutable std::mutex mutex_;  // for changes, and for readers other than the owner
  std::deque<std::shared_ptr<RewardHistory>> histories_;  // by learner
  std::deque<double> exponents_;  // by learner: the fading that its history has followed
  std::vector<float> users_;      // features, by learner
  double exponent_ = 0.0;
  std::optional<std::size_t> fit_size_;  // learners when the fit began
  double fit_exponent_ = 0.0;
  Copies copies_;
  std::map<std::uint32_t, double> copied_exponents_;
  std::size_t history_bytes_ = 0;  // that all histories hold
  std::size_t copied_bytes_ = 0;   // that the copies hold
};

}  // namespace mcnb
