#include "mcnb/serve/model/model.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/base/hash.h"
#include "mcnb/serve/model/aggregation.h"
#include "mcnb/serve/model/event_keys.h"

namespace mcnb {
namespace {

constexpr std::size_t kLessonsAtOnce = 256;
constexpr std::int64_t kLeastSlack = 1000;  // milliseconds

// Never 0, which stands for "none" in the tables.
std::uint64_t key_of(std::string_view text, std::uint64_t seed) {
  return std::max<std::uint64_t>(hash_bytes(text, seed), 1);
}

std::uint64_t reward_key(const std::string& reward_id) {
  return reward_id.empty() ? 0 : key_of(reward_id, 0);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

PolicySetup setup_of(const ModelOptions& options, ThreadPool& threads) {
  return {.inputs = static_cast<std::uint32_t>(options.dimension),
          .users = ServedUsers(static_cast<std::size_t>(options.groups), 1).first_learners(),
          .seed = options.seed,
          .threads = &threads,
          .fits_beside = options.fits_beside};
}

}  // namespace

const char* name_of(RewardOutcome outcome) {
  switch (outcome) {
    case RewardOutcome::kLearned:
      return "learned";
    case RewardOutcome::kWaiting:
      return "waiting";
    case RewardOutcome::kDuplicate:
      return "duplicate";
    case RewardOutcome::kIgnored:
      return "ignored";
    case RewardOutcome::kLate:
      return "late";
    case RewardOutcome::kUnknown:
      return "unknown";
  }
  return "?";
}

Model::Model(const ModelOptions& options, ThreadPool& threads)
    : threads_(threads),
      options_(options),
      first_policy_(options.policy),
      users_(static_cast<std::size_t>(options.groups),
             static_cast<std::size_t>(options.most_users)),
      waiting_(static_cast<std::size_t>(options.remembered)) {
  size_ = size_of(options, threads);
  policy_ = make_policy(options.policy, setup_of(options, threads));
  learners_.resize(policy_->user_count());
}

PolicySize Model::size_of(const ModelOptions& options, ThreadPool& threads) {
  check_model_options(options);
  return size_of_policy(options.policy, setup_of(options, threads));
}

PolicySize Model::size_of_challenger(const ModelOptions& model, const ChallengerOptions& options,
                                     ThreadPool& threads) {
  check_challenger_options(options);
  return size_of_policy(options.policy, setup_of(model, threads));
}

std::unique_ptr<Policy> Model::make_challenger(const ModelOptions& model,
                                               const ChallengerOptions& options,
                                               ThreadPool& threads) {
  check_challenger_options(options);
  return make_policy(options.policy, setup_of(model, threads));
}

std::size_t Model::memory_bytes() const {
  std::size_t bytes = policy_->memory_bytes() + users_.memory_bytes() + waiting_.memory_bytes() +
                      outcomes_.memory_bytes() + learners_.capacity() * sizeof learners_[0];
  for (const Challenger& challenger : challengers_) {
    bytes += sizeof challenger + challenger.policy->memory_bytes();
  }
  return bytes;
}

double Model::taught_learners() const {
  return std::min(static_cast<double>(counts_.learned), static_cast<double>(learners_.size()));
}

double Model::seconds_of_arm() const {
  double seconds = size_.seconds_of_arm(taught_learners());
  for (const Challenger& challenger : challengers_) {
    seconds += challenger.size.seconds_of_arm(taught_learners());
  }
  return seconds;
}

double Model::bytes_of_decision(std::string_view user_id) const {
  const std::optional<std::uint32_t> learner = users_.learner(user_key(user_id));
  const bool taught = learner && learners_[*learner].lessons > 0;
  constexpr double kUser = 100.0;  // of the tables of users
  const auto policy_bytes = [&](const PolicySize& size) {
    return (learner ? 0.0 : size.idle_bytes) + (taught ? size.event_bytes : size.user_bytes);
  };
  double bytes = WaitingEvents::kMostEventBytes + sizeof(Outcome) +
                 sizeof(float) * static_cast<double>(options_.dimension) + (learner ? 0.0 : kUser) +
                 policy_bytes(size_);
  for (const Challenger& challenger : challengers_) {
    bytes += policy_bytes(challenger.size);
  }
  return bytes;
}

std::uint64_t Model::event_key(std::string_view event_id) const {
  return event_id_key(event_id, options_.seed);
}

std::uint64_t Model::user_key(std::string_view user_id) const {
  return key_of(user_id, ~options_.seed);
}

std::optional<std::uint64_t> Model::find_decision(std::string_view event_id) {
  const std::uint64_t key = event_key(event_id);
  if (const WaitingEvent* event = waiting_.find(key)) {
    return event->log_position;
  }
  if (const EndedEvent* event = waiting_.find_ended(key)) {
    return event->log_position;
  }
  return std::nullopt;
}

bool Model::was_rewarded(std::string_view event_id) const {
  const EndedEvent* event = waiting_.find_ended(event_key(event_id));
  return event != nullptr && event->reward_id != 0;
}

std::uint64_t Model::user_of(std::string_view event_id) {
  const std::uint64_t key = event_key(event_id);
  if (const WaitingEvent* event = waiting_.find(key)) {
    return event->user;
  }
  const EndedEvent* event = waiting_.find_ended(key);
  return event == nullptr ? 0 : event->user;
}

bool Model::needs_arrival(std::string_view user_id) const {
  return !users_.learner(user_key(user_id)).has_value();
}

UserReport Model::user_report(std::string_view user_id) const {
  const std::uint64_t key = user_key(user_id);
  const std::optional<std::uint32_t> learner = users_.learner(key);
  if (!learner || (options_.groups == 0 && !users_.has_own(key))) {
    return {};
  }
  return {.known = true,
          .own_learner = users_.has_own(key),
          .learner = *learner,
          .decisions = learners_[*learner].decisions,
          .lessons = learners_[*learner].lessons};
}

void Model::apply(const Event& event, std::uint64_t position) {
  require(position > last_position_, "events are not in the order of the log");
  last_position_ = position;
  std::visit([this](const auto& one) { on(one); }, event);
  count_outcomes();
  if (lessons_.size() >= kLessonsAtOnce) {
    learn_now();
  }
}

// Throws unless a claim holds that only a damaged log can break.
void Model::require(bool sound, const char* claim) const {
  if (!sound) {
    throw Error(ErrorKind::kCorrupt, fmt::format("log row {}: {}", last_position_, claim));
  }
}

void Model::on(const Arrival& event) {
  require(!users_.learner(event.user).has_value(), "a user arrives twice");
  const std::uint32_t learner = users_.add(event.user);
  learn_now();
  if (const std::size_t known = policy_->user_count(); learner >= known) {
    policy_->add_users(learner + 1 - known);
    for (const Challenger& challenger : challengers_) {
      challenger.policy->add_users(learner + 1 - known);
    }
  }
  learners_.resize(policy_->user_count());
}

void Model::on(const Decision& event) {
  last_time_ = std::max(last_time_, event.time);
  const std::uint64_t user = user_key(event.user_id);
  const std::optional<std::uint32_t> learner = users_.learner(user);
  require(learner.has_value(), "a decision for a user who has not arrived");
  require(waiting_.find(event_key(event.event_id)) == nullptr &&
              waiting_.find_ended(event_key(event.event_id)) == nullptr,
          "an event is decided twice");
  require(event.features.size() == event.actions.size() * options_.dimension,
          "the features do not fit the model");
  require(
      event.challenged.size() == (event.mode == ModelMode::kLogging ? 0 : challengers_.size()) &&
          event.actions[event.chosen].probability > 0.0F,
      "a decision that this model cannot have made");
  ++counts_.decisions;
  ++learners_[*learner].decisions;
  counts_.explored += event.mode == ModelMode::kOnline && event.chosen != event.preferred ? 1 : 0;
  counts_.agreed += event.mode == ModelMode::kApprentice && event.chosen == event.preferred ? 1 : 0;
  if (event.mode != ModelMode::kLogging) {
    ++counts_.scored;
    counts_.cluster_sizes += event.actions[event.chosen].cluster_size;
  }
  const auto dimension = static_cast<std::size_t>(options_.dimension);
  const std::span<const float> features =
      std::span(event.features).subspan(event.chosen * dimension, dimension);
  WaitingEvent waiting{.key = event_key(event.event_id),
                       .log_position = last_position_,
                       .user = user,
                       .time = last_time_,
                       .learner = *learner,
                       .arm = event.arm,
                       .active = !event.deferred,
                       .learns = event.mode != ModelMode::kLogging,
                       .weight = lesson_weight(event),
                       .features = {features.begin(), features.end()}};
  note_outcome(event, waiting);
  waiting_.add(std::move(waiting));
}

// The probability of the answer under random play over that with which it was drawn. 1 where nobody
// asks for it, as in the states of earlier versions, which do not have it.
float Model::lesson_weight(const Decision& event) const {
  if (!options_.estimates && challengers_.empty()) {
    return 1.0F;
  }
  const auto eligible = std::ranges::count(event.actions, true, &LoggedAction::eligible);
  return 1.0F / (static_cast<float>(eligible) * event.actions[event.chosen].probability);
}

RewardOutcome Model::judge(const Reward& reward) {
  const std::uint64_t key = event_key(reward.event_id);
  const std::uint64_t reward_id = reward_key(reward.reward_id);
  if (const WaitingEvent* event = waiting_.find(key)) {
    if (reward_id != 0 && std::ranges::count(event->reward_ids, reward_id) > 0) {
      return RewardOutcome::kDuplicate;
    }
    // The end of the waiting time may not be logged yet. The times decide, not the order of work.
    if (static_cast<double>(reward.time) - static_cast<double>(event->time) >=
        static_cast<double>(waiting_milliseconds())) {
      return RewardOutcome::kLate;
    }
    const bool earliest = options_.aggregation == Aggregation::kEarliest;
    if (event->rewards.size() >= (earliest ? 1 : kMostRewards)) {
      return RewardOutcome::kIgnored;
    }
    return earliest && event->active && event->learns ? RewardOutcome::kLearned
                                                      : RewardOutcome::kWaiting;
  }
  const EndedEvent* event = waiting_.find_ended(key);
  if (event == nullptr) {
    return RewardOutcome::kUnknown;
  }
  if (reward_id != 0 &&
      (event->reward_id == reward_id || std::ranges::count(event->other_ids, reward_id) > 0)) {
    return RewardOutcome::kDuplicate;
  }
  return event->reward_id == 0 ? RewardOutcome::kLate : RewardOutcome::kIgnored;
}

void Model::on(const Reward& reward) {
  last_time_ = std::max(last_time_, reward.time);
  const std::uint64_t key = event_key(reward.event_id);
  const std::uint64_t reward_id = reward_key(reward.reward_id);
  switch (judge(reward)) {
    case RewardOutcome::kLearned:
      ++counts_.rewards;
      // A reward without an id still marks the event as rewarded.
      add_lesson(waiting_.end(key, std::max<std::uint64_t>(reward_id, 1)), reward.value);
      break;
    case RewardOutcome::kWaiting: {
      ++counts_.rewards;
      WaitingEvent& event = *waiting_.find(key);
      event.rewards.push_back(reward.value);
      event.reward_ids.push_back(reward_id);
      break;
    }
    case RewardOutcome::kLate:
      ++counts_.late;
      waiting_.note_late(key, reward_id);
      break;
    case RewardOutcome::kDuplicate:
    case RewardOutcome::kIgnored:
    case RewardOutcome::kUnknown:
      break;
  }
}

void Model::on(const Activation& event) {
  last_time_ = std::max(last_time_, event.time);
  const std::uint64_t key = event_key(event.event_id);
  WaitingEvent* waiting = waiting_.find(key);
  if (waiting == nullptr || waiting->active) {
    return;
  }
  waiting->active = true;
  if (options_.aggregation == Aggregation::kEarliest && !waiting->rewards.empty() &&
      waiting->learns) {
    const float reward = waiting->rewards.front();
    const std::uint64_t reward_id = std::max<std::uint64_t>(waiting->reward_ids.front(), 1);
    add_lesson(waiting_.end(key, reward_id), reward);
  }
}

std::int64_t Model::waiting_milliseconds() const {
  return static_cast<std::int64_t>(options_.waiting_seconds * 1000.0);
}

std::uint32_t Model::due(std::int64_t time, std::size_t limit) {
  const std::size_t over = waiting_.count_until(time - waiting_milliseconds(), limit);
  const auto most = static_cast<std::size_t>(options_.most_pending);
  const std::size_t too_many = waiting_.size() > most ? waiting_.size() - most : 0;
  return static_cast<std::uint32_t>(std::max(over, std::min(too_many, limit)));
}

bool Model::outcomes_are_due(std::int64_t time) const {
  // So long that there are few such events.
  const std::int64_t slack = std::max(kLeastSlack, waiting_milliseconds() / 100);
  return outcomes_.is_due(time - waiting_milliseconds() - slack);
}

void Model::on(const Expiry& event) {
  last_time_ = std::max(last_time_, event.time);
  for (std::uint32_t i = 0; i < event.count && waiting_.size() > 0; ++i) {
    end(waiting_.end_oldest());
  }
}

void Model::end(WaitingEvent event) {
  ++counts_.expired;
  if (!event.learns) {
    outcomes_.end(event.log_position,
                  event.active ? std::optional(reward_unlearned(event)) : std::nullopt);
    return;
  }
  if (!event.active) {
    ++counts_.unactivated;
    outcomes_.end(event.log_position, std::nullopt);
    return;
  }
  const float reward = aggregate(event);
  add_lesson(std::move(event), reward);
}

float Model::aggregate(const WaitingEvent& event) {
  const std::vector<float>& rewards = event.rewards;
  if (rewards.empty()) {
    ++counts_.defaults;
    return static_cast<float>(options_.default_reward);
  }
  const double reward = aggregate_rewards(options_.aggregation, rewards);
  counts_.clipped += reward > 1.0 ? 1 : 0;
  return static_cast<float>(std::min(reward, 1.0));
}

// The reward of an event that nothing was learned from.
float Model::reward_unlearned(const WaitingEvent& event) const {
  const double reward = event.rewards.empty()
                            ? options_.default_reward
                            : aggregate_rewards(options_.aggregation, event.rewards);
  return static_cast<float>(std::min(reward, 1.0));
}

void Model::add_lesson(WaitingEvent event, float reward) {
  ++counts_.learned;
  ++learners_[event.learner].lessons;
  outcomes_.end(event.log_position, reward);
  lessons_.push_back({RoundId{event.key}, event.learner, event.arm, std::move(event.features),
                      reward, event.weight});
}

void Model::learn_now() {
  if (!lessons_.empty()) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<RewardedArm> rewarded;
    for (const Lesson& lesson : lessons_) {
      rewarded.push_back({lesson.round,
                          {.index = ArmIndex{lesson.arm},
                           .user = UserId{lesson.learner},
                           .features = {lesson.features}},
                          lesson.reward});
    }
    const std::vector<Refusal> refused = policy_->learn_all(rewarded);
    counts_.refused += refused.size();
    if (!refused.empty()) {
      last_refusal_ = refused.back().why.what();
    }
    for (Challenger& challenger : challengers_) {
      teach(challenger, rewarded);
    }
    lessons_.clear();
    learning_seconds_ += seconds_since(begin);
  }
}

void Model::prepare(std::string_view user_id, const Sample& sample) {
  const std::uint64_t user = user_key(user_id);
  on(Arrival{user});
  const std::uint32_t learner = *users_.learner(user);
  policy_->start(UserId{learner}, sample);
  ++counts_.learned;
  ++learners_[learner].lessons;
}

double Model::take_learning_seconds() { return std::exchange(learning_seconds_, 0.0); }

void Model::on(const Forgetting& event) {
  last_time_ = std::max(last_time_, event.time);
  learn_now();
  waiting_.forget(event.user);
  outcomes_.forget(event.user);
  if (users_.has_own(event.user)) {
    const std::uint32_t learner = *users_.learner(event.user);
    bool forgotten = policy_->forget(UserId{learner});
    for (const Challenger& challenger : challengers_) {
      forgotten = challenger.policy->forget(UserId{learner}) && forgotten;
    }
    users_.remove(event.user, forgotten);
    learners_[learner] = {};
  }
  ++counts_.forgotten;
}

void Model::on(const SettingsChange& event) {
  last_time_ = std::max(last_time_, event.time);
  for (const auto& [name, text] : event.settings) {
    change_setting(options_, name, text);
  }
}

}  // namespace mcnb
