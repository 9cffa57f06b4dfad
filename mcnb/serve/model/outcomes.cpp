#include "mcnb/serve/model/outcomes.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace mcnb {
namespace {

constexpr std::uint64_t kMostWaiting = 1'000'000'000;

}  // namespace

void RunningValue::add(double weight, double reward) {
  ++count_;
  weights_ += weight;
  squares_ += weight * weight;
  rewarded_ += weight * reward;
  sequence_.add(weight, reward);
}

std::optional<double> RunningValue::value() const {
  return weights_ > 0.0 ? std::optional(rewarded_ / weights_) : std::nullopt;
}

double RunningValue::mean_weight() const {
  return count_ == 0 ? 0.0 : weights_ / static_cast<double>(count_);
}

double RunningValue::effective_sample_size() const {
  return squares_ > 0.0 ? weights_ * weights_ / squares_ : 0.0;
}

void RunningValue::save(StateWriter& writer) const {
  writer.write(count_);
  writer.write(weights_);
  writer.write(squares_);
  writer.write(rewarded_);
  sequence_.save(writer);
}

void RunningValue::load(StateReader& reader) {
  count_ = reader.read<std::uint64_t>();
  weights_ = reader.read<double>();
  squares_ = reader.read<double>();
  rewarded_ = reader.read<double>();
  for (const double sum : {weights_, squares_, rewarded_}) {
    if (!std::isfinite(sum) || sum < 0.0) {
      reader.fail("an estimate has impossible sums");
    }
  }
  sequence_.load(reader);
}

double Outcome::random_weight() const {
  return 1.0 / (static_cast<double>(eligible) * static_cast<double>(probability));
}

double Outcome::weight_of(bool preferred) const {
  const auto count = static_cast<double>(eligible);
  // Rounded as the logged probability is, so that equal probabilities give the weight 1.
  const double own = preferred ? 1.0 - epsilon * (count - 1.0) / count : epsilon / count;
  return static_cast<double>(static_cast<float>(own)) / static_cast<double>(probability);
}

void Outcomes::end(std::uint64_t log_position, std::optional<float> reward) {
  const auto own = std::ranges::lower_bound(waiting_, log_position, {}, &Outcome::log_position);
  if (own == waiting_.end() || own->log_position != log_position) {
    return;
  }
  own->flags |= Outcome::kEnded;
  if (!reward) {
    own->flags |= Outcome::kExcluded;
  }
  own->reward = reward.value_or(0.0F);
}

void Outcomes::forget(std::uint64_t user) {
  std::erase_if(waiting_, [&](const Outcome& outcome) { return outcome.user == user; });
}

bool Outcomes::is_due(std::int64_t time) const {
  return !waiting_.empty() && waiting_.front().has(Outcome::kEnded) &&
         waiting_.front().time <= time;
}

std::optional<Outcome> Outcomes::take(std::int64_t time, std::size_t most) {
  const bool crowded = waiting_.size() > most && waiting_.front().has(Outcome::kEnded);
  if (!crowded && !is_due(time)) {
    return std::nullopt;
  }
  const Outcome outcome = waiting_.front();
  waiting_.pop_front();
  if (outcome.has(Outcome::kExcluded)) {
    ++counts_.unactivated;
  } else {
    ++counts_.counted;
    counts_.reward_sum += static_cast<double>(outcome.reward);
  }
  return outcome;
}

void Outcomes::save(StateWriter& writer) const {
  writer.write(counts_);
  writer.write_count(waiting_.size());
  for (const Outcome& outcome : waiting_) {
    writer.write(outcome);
  }
}

void Outcomes::load(StateReader& reader) {
  waiting_.clear();
  counts_ = reader.read<OutcomeCounts>();
  const std::uint64_t count = reader.read_count(kMostWaiting);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto outcome = reader.read<Outcome>();
    const bool sound = outcome.reward >= 0.0F && outcome.reward <= 1.0F &&
                       outcome.probability > 0.0F && outcome.probability <= 1.0F &&
                       outcome.epsilon >= 0.0 && outcome.epsilon <= 1.0 && outcome.eligible > 0 &&
                       outcome.flags <= Outcome::kAllFlags &&
                       (waiting_.empty() || waiting_.back().log_position < outcome.log_position);
    if (!sound) {
      reader.fail("the outcome of a decision has impossible values");
    }
    waiting_.push_back(outcome);
  }
}

}  // namespace mcnb
