#include "mcnb/bandit/hierarchical/history_book.h"

#include <cmath>
#include <utility>

#include "mcnb/bandit/hierarchical/matrix_state.h"
#include "mcnb/base/check.h"

namespace mcnb {
namespace {

// Of a history and what shares it, without what it holds.
constexpr std::size_t kHistoryBytes =
    sizeof(RewardHistory) + sizeof(std::shared_ptr<RewardHistory>) + 2 * sizeof(void*);

void follow(RewardHistory& history, double exponent) {
  if (exponent > 0.0) {
    history.fade(std::exp2(-exponent));
  }
}

}  // namespace

std::span<const float> HistoryBook::user(std::size_t learner) const {
  return std::span(users_).subspan(learner * user_features_count_, user_features_count_);
}

double HistoryBook::reward_count() const {
  double count = 0.0;
  for (const std::shared_ptr<RewardHistory>& history : histories_) {
    count += history->reward_count();
  }
  return count;
}

std::size_t HistoryBook::memory_bytes_with(std::size_t history_bytes,
                                           std::size_t copied_bytes) const {
  return sizeof *this + users_.capacity() * sizeof(float) +
         histories_.size() * (kHistoryBytes + sizeof(double)) + history_bytes +
         copies_.size() * kHistoryBytes + copied_bytes;
}

std::size_t HistoryBook::memory_bytes() const {
  return memory_bytes_with(history_bytes_, copied_bytes_);
}

std::size_t HistoryBook::count_memory_bytes() const {
  std::size_t history_bytes = 0;
  for (const std::shared_ptr<RewardHistory>& history : histories_) {
    history_bytes += history->memory_bytes();
  }
  std::size_t copied_bytes = 0;
  for (const auto& [learner, history] : copies_) {
    copied_bytes += history->memory_bytes();
  }
  return memory_bytes_with(history_bytes, copied_bytes);
}

std::size_t HistoryBook::add_learner(std::span<const float> user) {
  check(user.size() == user_features_count_, "users have the features that the book expects");
  const std::lock_guard lock(mutex_);
  histories_.push_back(std::make_shared<RewardHistory>());
  exponents_.push_back(exponent_);
  users_.insert(users_.end(), user.begin(), user.end());
  return histories_.size() - 1;
}

RewardHistory& HistoryBook::changeable(std::size_t learner) {
  std::shared_ptr<RewardHistory>& history = histories_[learner];
  if (fit_size_ && learner < *fit_size_) {
    const auto key = static_cast<std::uint32_t>(learner);
    if (copies_.try_emplace(key, history).second) {
      copied_exponents_.emplace(key, exponents_[learner]);
      copied_bytes_ += history->memory_bytes();
    }
  }
  if (history.use_count() > 1) {
    history = std::make_shared<RewardHistory>(*history);
  }
  return *history;
}

template <class Change>
void HistoryBook::change(std::size_t learner, const Change& change) {
  history_bytes_ -= histories_[learner]->memory_bytes();
  RewardHistory& history = changeable(learner);
  change(history);
  history_bytes_ += history.memory_bytes();
}

void HistoryBook::add_reward(std::size_t learner, std::optional<std::size_t> known,
                             std::span<const float> arm, float reward) {
  const std::lock_guard lock(mutex_);
  change(learner, [&](RewardHistory& history) {
    if (has_periods_) {
      history.begin_period(period_);
    }
    history.add(known, arm, reward);
  });
}

void HistoryBook::fold(std::size_t learner, const FeatureMap& map, double memory) {
  const std::lock_guard lock(mutex_);
  change(learner, [&](RewardHistory& history) { history.fold(map, user(learner), memory); });
}

void HistoryBook::clear(std::size_t learner) {
  const std::lock_guard lock(mutex_);
  history_bytes_ -= histories_[learner]->memory_bytes();
  histories_[learner] = std::make_shared<RewardHistory>();
  if (const auto copy = copies_.find(static_cast<std::uint32_t>(learner)); copy != copies_.end()) {
    copied_bytes_ -= copy->second->memory_bytes();
    copies_.erase(copy);
  }
  exponents_[learner] = exponent_;
}

RewardHistory HistoryBook::up_to_date(std::size_t learner) const {
  RewardHistory history = *histories_[learner];
  follow(history, exponent_ - exponents_[learner]);
  return history;
}

void HistoryBook::bring_up_to_date(std::size_t learner) {
  if (is_up_to_date(learner)) {
    return;
  }
  const std::lock_guard lock(mutex_);
  change(learner,
         [&](RewardHistory& history) { follow(history, exponent_ - exponents_[learner]); });
  exponents_[learner] = exponent_;
}

void HistoryBook::begin_fit() {
  const std::lock_guard lock(mutex_);
  fit_size_ = histories_.size();
  fit_exponent_ = exponent_;
  ++period_;
  copies_.clear();
  copied_exponents_.clear();
  copied_bytes_ = 0;
}

HistoryBook::Copies HistoryBook::end_fit() {
  const std::lock_guard lock(mutex_);
  fit_size_.reset();
  copied_exponents_.clear();
  copied_bytes_ = 0;
  return std::exchange(copies_, {});
}

void HistoryBook::replace(std::size_t learner, std::shared_ptr<RewardHistory>& history) {
  const std::lock_guard lock(mutex_);
  history_bytes_ += history->memory_bytes();
  history_bytes_ -= histories_[learner]->memory_bytes();
  histories_[learner].swap(history);
  exponents_[learner] = exponent_;
}

HistoryBook::Entry HistoryBook::at_fit(std::size_t learner) const {
  std::unique_lock lock(mutex_);
  const std::span<const float> numbers = user(learner);
  const auto copy = copies_.find(static_cast<std::uint32_t>(learner));
  std::shared_ptr<const RewardHistory> history =
      copy != copies_.end() ? copy->second : histories_[learner];
  const double exponent =
      copy != copies_.end() ? copied_exponents_.at(copy->first) : exponents_[learner];
  const double lag = (fit_size_ ? fit_exponent_ : exponent_) - exponent;
  Entry entry{{}, {numbers.begin(), numbers.end()}};
  // The history is read without the lock: the owner does not change it while it is shared.
  lock.unlock();
  entry.history = *history;
  lock.lock();
  history.reset();
  lock.unlock();
  follow(entry.history, lag);
  return entry;
}

std::uint64_t HistoryBook::ended_period() const {
  const std::lock_guard lock(mutex_);
  return period_ - 1;
}

std::size_t HistoryBook::size_at_fit() const {
  const std::lock_guard lock(mutex_);
  return fit_size_.value_or(histories_.size());
}

void HistoryBook::save(StateWriter& writer) const {
  writer.write(static_cast<std::uint64_t>(histories_.size()));
  writer.write_all(users_);
  writer.write(exponent_);
  if (has_periods_) {
    writer.write(period_);
  }
  for (std::size_t i = 0; i < histories_.size(); ++i) {
    writer.write(exponents_[i]);
    histories_[i]->save(writer);
  }
  writer.write(static_cast<std::uint8_t>(fit_size_.has_value()));
  if (fit_size_) {
    writer.write(static_cast<std::uint64_t>(*fit_size_));
    writer.write(fit_exponent_);
    writer.write(static_cast<std::uint64_t>(copies_.size()));
    for (const auto& [learner, history] : copies_) {
      writer.write(learner);
      writer.write(copied_exponents_.at(learner));
      history->save(writer);
    }
  }
}

void HistoryBook::load(StateReader& reader, const FeatureMap& map) {
  const std::lock_guard lock(mutex_);
  const auto read_exponent = [&] {
    const auto exponent = reader.read<double>();
    if (!std::isfinite(exponent)) {
      reader.fail("the fading of a history is not finite");
    }
    return exponent;
  };
  const auto count = reader.read<std::uint64_t>();
  users_ = reader.read_all<float>(kMostNumbers);
  if (users_.size() != count * user_features_count_) {
    reader.fail("the users do not have the features of these learners");
  }
  exponent_ = read_exponent();
  if (has_periods_) {
    period_ = reader.read<std::uint64_t>();
  }
  histories_.clear();
  exponents_.clear();
  history_bytes_ = 0;
  copied_bytes_ = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    exponents_.push_back(read_exponent());
    histories_.push_back(std::make_shared<RewardHistory>());
    histories_.back()->load(reader, map);
    history_bytes_ += histories_.back()->memory_bytes();
  }
  fit_size_.reset();
  copies_.clear();
  copied_exponents_.clear();
  if (reader.read<std::uint8_t>() == 0) {
    return;
  }
  fit_size_ = reader.read<std::uint64_t>();
  fit_exponent_ = read_exponent();
  const auto copies = reader.read<std::uint64_t>();
  for (std::uint64_t i = 0; i < copies; ++i) {
    const auto learner = reader.read<std::uint32_t>();
    copied_exponents_[learner] = read_exponent();
    copies_[learner] = std::make_shared<RewardHistory>();
    copies_[learner]->load(reader, map);
    copied_bytes_ += copies_[learner]->memory_bytes();
  }
  if (*fit_size_ > count || (!copies_.empty() && copies_.rbegin()->first >= *fit_size_)) {
    reader.fail("the copies for a fit do not fit the learners");
  }
}

}  // namespace mcnb
