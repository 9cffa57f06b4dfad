#include "mcnb/bandit/hierarchical/reward_history.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "mcnb/bandit/hierarchical/matrix_state.h"
#include "mcnb/base/hash.h"
#include "mcnb/numeric/network.h"

namespace mcnb {
namespace {

constexpr double kNegligible = 1e-3;  // of one reward: less is dropped when rewards fade

std::uint32_t hash_of_arm(std::span<const float> arm) {
  return static_cast<std::uint32_t>(
      hash_bytes({reinterpret_cast<const char*>(arm.data()), arm.size_bytes()}));
}

// Makes room for `count` more elements. Grows by a quarter, because there may be millions of
// histories, most of them short.
template <class T>
void make_room(std::vector<T>& list, std::size_t count) {
  if (list.size() + count > list.capacity()) {
    list.reserve(list.size() + std::max(count, list.size() / 4));
  }
}

bool all_sound(std::span<const ArmRewards> rewards) {
  return std::ranges::all_of(rewards, [](const ArmRewards& arm) {
    return std::isfinite(arm.count) && arm.count > 0.0 && std::isfinite(arm.sum);
  });
}

// Which parts a saved history has.
constexpr std::uint8_t kHasFolded = 1;
constexpr std::uint8_t kHasBefore = 2;

}  // namespace

RewardHistory::RewardHistory(const RewardHistory& other)
    : values_(other.values_),
      rewards_(other.rewards_),
      hashes_(other.hashes_),
      reward_count_(other.reward_count_),
      squared_rewards_(other.squared_rewards_),
      folded_(other.folded_ ? std::make_unique<Folded>(*other.folded_) : nullptr),
      before_(other.before_ ? std::make_unique<Before>(*other.before_) : nullptr) {}

RewardHistory& RewardHistory::operator=(const RewardHistory& other) {
  return *this = RewardHistory(other);
}

std::optional<std::size_t> RewardHistory::find(std::span<const float> arm) const {
  const std::uint32_t hash = hash_of_arm(arm);
  for (auto at = hashes_.begin(); (at = std::find(at, hashes_.end(), hash)) != hashes_.end();
       ++at) {
    const auto index = static_cast<std::size_t>(at - hashes_.begin());
    if (std::memcmp(this->arm(index).data(), arm.data(), arm.size_bytes()) == 0) {
      return index;
    }
  }
  return std::nullopt;
}

void RewardHistory::add(std::optional<std::size_t> known, std::span<const float> arm,
                        float reward) {
  if (!known) {
    make_room(values_, arm.size());
    make_room(rewards_, 1);
    make_room(hashes_, 1);
    values_.insert(values_.end(), arm.begin(), arm.end());
    rewards_.emplace_back();
    hashes_.push_back(hash_of_arm(arm));
  }
  ArmRewards& mine = rewards_[known.value_or(rewards_.size() - 1)];
  mine.count += 1.0;
  mine.sum += static_cast<double>(reward);
  reward_count_ += 1.0;
  squared_rewards_ += static_cast<double>(reward) * static_cast<double>(reward);
}

void RewardHistory::begin_period(std::uint64_t period) {
  if (!has_rewards_of(period)) {
    before_ = std::make_unique<Before>(Before{period, rewards_, reward_count_, squared_rewards_});
  }
}

RewardHistory RewardHistory::weighed(std::uint64_t period, double before, double since) const {
  const Before all{period, rewards_, reward_count_, squared_rewards_};
  const Before& old = has_rewards_of(period) ? *before_ : all;
  const auto weigh = [&](double then, double now) { return before * then + since * (now - then); };
  RewardHistory result;
  for (std::size_t j = 0; j < rewards_.size(); ++j) {
    const ArmRewards then = j < old.rewards.size() ? old.rewards[j] : ArmRewards{};
    const ArmRewards mine{weigh(then.count, rewards_[j].count), weigh(then.sum, rewards_[j].sum)};
    if (mine.count >= kNegligible) {
      result.rewards_.push_back(mine);
      result.hashes_.push_back(hashes_[j]);
      result.values_.insert(result.values_.end(), arm(j).begin(), arm(j).end());
    }
  }
  result.reward_count_ = weigh(old.reward_count, reward_count_);
  result.squared_rewards_ = std::max(0.0, weigh(old.squared_rewards, squared_rewards_));
  if (folded_) {
    result.folded_ = std::make_unique<Folded>(*folded_);
    result.folded_->scale(before);
  }
  return result;
}

void RewardHistory::fade(double factor) {
  before_.reset();
  const std::size_t length = inputs();
  std::size_t kept = 0;
  for (std::size_t j = 0; j < rewards_.size(); ++j) {
    const ArmRewards faded{factor * rewards_[j].count, factor * rewards_[j].sum};
    if (faded.count < kNegligible) {
      reward_count_ -= rewards_[j].count;
      squared_rewards_ -= rewards_[j].sum * rewards_[j].mean();
      continue;
    }
    rewards_[kept] = faded;
    hashes_[kept] = hashes_[j];
    std::copy_n(values_.begin() + signed_size(j * length), length,
                values_.begin() + signed_size(kept * length));
    ++kept;
  }
  rewards_.resize(kept);
  hashes_.resize(kept);
  values_.resize(kept * length);
  reward_count_ *= factor;
  squared_rewards_ = std::max(0.0, factor * squared_rewards_);
  if (folded_) {
    folded_->scale(factor);
  }
  if (rewards_.empty() && !folded_) {
    reward_count_ = 0.0;
    squared_rewards_ = 0.0;
  }
}

void RewardHistory::Folded::scale(double factor) {
  information *= factor;
  weighted *= factor;
  quadratic *= factor;
  log_determinant *= factor;
}

void RewardHistory::fold(const FeatureMap& map, std::span<const float> user, double memory) {
  before_.reset();
  const auto size = signed_size(map.shared_size());
  if (!folded_) {
    folded_ = std::make_unique<Folded>(
        Folded{Eigen::MatrixXd::Zero(size, size), Eigen::VectorXd::Zero(size)});
  }
  const std::size_t count = (arm_count() + 1) / 2;
  Eigen::MatrixXd scaled(size, signed_size(count));
  for (std::size_t j = 0; j < count; ++j) {
    const ArmRewards& mine = rewards_[j];
    const double weight = mine.weight(memory);
    auto column = scaled.col(signed_size(j));
    map.expand(arm(j), user, column.data());
    folded_->weighted += weight * mine.mean() * column;
    column *= std::sqrt(weight);
    folded_->quadratic += (weight - mine.count) * mine.mean() * mine.mean();
    folded_->log_determinant += std::log(mine.count / weight);
  }
  folded_->information.noalias() += scaled * scaled.transpose();
  erase_first(count);
}

void RewardHistory::erase_first(std::size_t count) {
  values_.erase(values_.begin(), values_.begin() + signed_size(count * inputs()));
  rewards_.erase(rewards_.begin(), rewards_.begin() + signed_size(count));
  hashes_.erase(hashes_.begin(), hashes_.begin() + signed_size(count));
}

void RewardHistory::expand(const FeatureMap& map, std::span<const float> user,
                           Eigen::MatrixXd& out) const {
  out.resize(signed_size(map.shared_size()), signed_size(arm_count()));
  for (std::size_t j = 0; j < arm_count(); ++j) {
    map.expand(arm(j), user, out.col(signed_size(j)).data());
  }
}

std::size_t RewardHistory::memory_bytes() const {
  std::size_t bytes = values_.capacity() * sizeof(float) +
                      rewards_.capacity() * sizeof(ArmRewards) +
                      hashes_.capacity() * sizeof(std::uint32_t);
  if (folded_) {
    bytes += sizeof *folded_ +
             sizeof(double) *
                 static_cast<std::size_t>(folded_->information.size() + folded_->weighted.size());
  }
  if (before_) {
    bytes += sizeof *before_ + before_->rewards.capacity() * sizeof(ArmRewards);
  }
  return bytes;
}

void RewardHistory::save(StateWriter& writer) const {
  writer.write_all(values_);
  writer.write_all(rewards_);
  writer.write(reward_count_);
  writer.write(squared_rewards_);
  writer.write(static_cast<std::uint8_t>((folded_ ? kHasFolded : 0) | (before_ ? kHasBefore : 0)));
  if (folded_) {
    write_matrix(writer, folded_->information);
    write_matrix(writer, folded_->weighted);
    writer.write(folded_->quadratic);
    writer.write(folded_->log_determinant);
  }
  if (before_) {
    writer.write(before_->period);
    writer.write_all(before_->rewards);
    writer.write(before_->reward_count);
    writer.write(before_->squared_rewards);
  }
}

void RewardHistory::load(StateReader& reader, const FeatureMap& map) {
  values_ = reader.read_all<float>(kMostNumbers);
  rewards_ = reader.read_all<ArmRewards>(kMostNumbers);
  reward_count_ = reader.read<double>();
  squared_rewards_ = reader.read<double>();
  if (values_.size() != rewards_.size() * map.inputs()) {
    reader.fail("a learner's arms do not have the length of these features");
  }
  if (!all_sound(rewards_) || !all_finite(values_) || !std::isfinite(reward_count_) ||
      !std::isfinite(squared_rewards_)) {
    reader.fail("a learner has a reward or an arm that is not finite");
  }
  hashes_.clear();
  for (std::size_t j = 0; j < rewards_.size(); ++j) {
    hashes_.push_back(hash_of_arm(arm(j)));
  }
  folded_.reset();
  before_.reset();
  const auto parts = reader.read<std::uint8_t>();
  if ((parts & kHasFolded) != 0) {
    const auto size = signed_size(map.shared_size());
    folded_ = std::make_unique<Folded>(Folded{Eigen::MatrixXd(size, size), Eigen::VectorXd(size)});
    read_matrix(reader, folded_->information);
    read_matrix(reader, folded_->weighted);
    folded_->quadratic = reader.read<double>();
    folded_->log_determinant = reader.read<double>();
  }
  if ((parts & kHasBefore) != 0) {
    before_ = std::make_unique<Before>();
    before_->period = reader.read<std::uint64_t>();
    before_->rewards = reader.read_all<ArmRewards>(rewards_.size());
    before_->reward_count = reader.read<double>();
    before_->squared_rewards = reader.read<double>();
    if (!all_sound(before_->rewards) || !std::isfinite(before_->reward_count) ||
        !std::isfinite(before_->squared_rewards)) {
      reader.fail("a learner's rewards before a fit are not finite");
    }
  }
}

}  // namespace mcnb
