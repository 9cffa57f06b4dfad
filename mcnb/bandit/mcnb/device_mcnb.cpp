#include "mcnb/bandit/mcnb/device_mcnb.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "mcnb/bandit/mcnb/device/device_state.h"
#include "mcnb/bandit/mcnb/divergence.h"
#include "mcnb/bandit/mcnb/pre_clusters.h"
#include "mcnb/bandit/mcnb/upper_bound.h"
#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

void expect(bool fulfilled, const char* option, const char* expected, const std::string& given) {
  if (!fulfilled) {
    refuse_option(option, std::string(expected) + " with device=cuda", given);
  }
}

// What the device can do: one plain step of an adaptation, of networks with two layers.
const McnbOptions& checked(const McnbOptions& options, const PolicySetup& setup) {
  check_mcnb_options(options);
  expect(options.network.depth == 2, "depth", "2", std::to_string(options.network.depth));
  expect(!options.network.biases, "biases", "no", "yes");
  expect(options.network.width <= device::kMostWidth, "width", "at most 256",
         std::to_string(options.network.width));
  expect(options.scan == Scan::kAll, "scan", "all", "sampled");
  expect(options.training == TrainingMode::kOnline, "training", "online", "replay");
  expect(options.meta_samples == 0, "meta_samples", "0 (all members)",
         std::to_string(options.meta_samples));
  expect(options.meta_steps == 1, "meta_steps", "1", std::to_string(options.meta_steps));
  expect(options.meta_draw == MetaDraw::kOne, "meta_draw", "one", "all");
  expect(options.history_limit == 0, "history_limit", "0", std::to_string(options.history_limit));
  expect(options.keep_arms == 0, "keep_arms", "0", std::to_string(options.keep_arms));
  expect(setup.block_length == 0 || setup.block_length == setup.inputs, "block",
         "arms without blocks", fmt::format("blocks of {}", setup.block_length));
  return options;
}

std::size_t learner_count(const std::vector<UserId>& learner_of) {
  if (learner_of.empty()) {
    throw Error(ErrorKind::kUsage, "users: expected at least 1, got 0");
  }
  return index(*std::ranges::max_element(learner_of)) + 1;
}

}  // namespace

DeviceMcnb::DeviceMcnb(const McnbOptions& options, const PolicySetup& setup, const MakeRounds& make)
    : options_(checked(options, setup)),
      seed_(setup.seed),
      threads_(*setup.threads),
      shape_(options.network.shape(setup.inputs)),
      start_(random_network(shape_, options.network.initialisation, setup.seed)),
      learner_of_(assign_learners(setup, static_cast<std::size_t>(options.pre_clusters))),
      has_own_datum_(learner_count(learner_of_)),
      meta_(shape_, start_),
      rounds_(make({.shape = shape_,
                    .users = has_own_datum_.size(),
                    .gap = static_cast<float>(options.gamma * (options.nu - 1.0) / options.nu),
                    .meta_rate = options.eta_2,
                    .rate = static_cast<float>(options.eta_1)},
                   start_)) {}

void DeviceMcnb::add_users(std::size_t count) {
  change_on_host([&](Mcnb& host) { host.add_users(count); });
}

void DeviceMcnb::start(UserId user, const Sample& sample) {
  check_start(user, sample, user_count(), shape());
  unit_arms_.clear();
  const Candidate known = candidate({}, {.user = user, .features = sample.features});
  const Sample scaled{known.arm.features, sample.reward};
  if (!is_ordinary(rounds_->learner(known.learner), scaled)) {
    change_on_host([&](Mcnb& host) { host.start(user, sample); });
    return;
  }
  last_pass_.clear();
  rounds_->begin_lesson(known.learner, scaled.features.values, scaled.reward);
  rounds_->finish_lesson();
  has_own_datum_[index(known.learner)] = 1;
  ++steps_.training;
}

ArmIndex DeviceMcnb::choose(const Round& round) {
  check_round(round, user_count(), shape());
  return highest(scores_between(round, 0, round.arms.size(), &steps_.adaptation));
}

std::vector<Score> DeviceMcnb::scores(const Round& round) {
  check_round(round, user_count(), shape());
  return scores_between(round, 0, round.arms.size(), nullptr);
}

std::vector<Score> DeviceMcnb::scores_of_part(const Round& round, std::size_t begin,
                                              std::size_t end) {
  check(begin < end && end <= round.arms.size(), "a part of a round has some of its arms");
  check_round(round, user_count(), shape());
  return scores_between(round, begin, end, nullptr);
}

std::vector<Score> DeviceMcnb::scores_between(const Round& round, std::size_t begin,
                                              std::size_t end, std::uint64_t* adaptation_steps) {
  unit_arms_.clear();
  std::vector<Candidate> arms;
  for (std::size_t i = begin; i < end; ++i) {
    arms.push_back(candidate(round.id, round.arms[i]));
  }
  std::vector<Score> scores;
  std::uint64_t steps = 0;
  for (std::size_t first = 0; first < arms.size(); first += device::Rounds::kMostArms) {
    const std::size_t count = std::min(device::Rounds::kMostArms, arms.size() - first);
    const std::vector<device::PassResult> results = pass(std::span(arms).subspan(first, count));
    for (std::size_t i = 0; i < count; ++i) {
      steps += results[i].draws;
      std::optional<Score> found = score(arms[first + i], results[i]);
      if (!found) {  // an adaptation needs damping
        const std::unique_ptr<Mcnb> host = to_host();
        scores = host->scores_of_part(round, begin, end);
        if (adaptation_steps != nullptr) {
          host->choose(round);
          *adaptation_steps = host->steps().adaptation;
        }
        return scores;
      }
      scores.push_back(std::move(*found));
    }
  }
  if (adaptation_steps != nullptr) {
    *adaptation_steps += steps;
  }
  return scores;
}

std::vector<device::PassResult> DeviceMcnb::pass(std::span<const Candidate> arms) {
  std::vector<device::PassArm> asked;
  for (const auto& [round, arm, learner] : arms) {
    const RngFamily family(
        Rng(seed_, Stream::kMetaDraw, index(round), static_cast<std::uint32_t>(arm.index)));
    asked.push_back({learner, family.key(), arm.features.values});
  }
  last_pass_.clear();
  last_results_ = rounds_->pass(asked);
  for (std::size_t i = 0; i < arms.size(); ++i) {
    if (!std::isfinite(last_results_[i].own)) {
      refuse_diverged(learner_name(arms[i].learner), "eta_1", options_.eta_1);
    }
  }
  remember_pass(arms);
  return last_results_;
}

// Copies the arms and their features, so that feedback can be known as feedback on one of them.
void DeviceMcnb::remember_pass(std::span<const Candidate> arms) {
  last_pass_.assign(arms.begin(), arms.end());
  last_values_.resize(arms.size() * shape_.inputs);
  float* to = last_values_.data();
  for (Candidate& arm : last_pass_) {
    std::ranges::copy(arm.arm.features.values, to);
    arm.arm.features.values = {to, shape_.inputs};
    to += shape_.inputs;
  }
}

bool DeviceMcnb::is_in_last_pass(const Candidate& arm, std::size_t& position) const {
  const auto found = std::ranges::find_if(last_pass_, [&](const Candidate& known) {
    return known.round == arm.round && known.arm.index == arm.arm.index &&
           known.learner == arm.learner &&
           std::ranges::equal(known.arm.features.values, arm.arm.features.values);
  });
  position = static_cast<std::size_t>(found - last_pass_.begin());
  return found != last_pass_.end();
}

std::optional<Score> DeviceMcnb::score(const Candidate& arm, const device::PassResult& result) {
  const std::optional<AdaptedMeta> meta =
      meta_.adapted_from(arm.arm.features, result.sums, result.last, result.has_ordinary_rewards,
                         options_.eta_2, scratch_);
  if (!meta) {
    return std::nullopt;
  }
  return upper_bound(options_, *meta, result.trained, result.members);
}

std::optional<std::vector<UserId>> DeviceMcnb::cluster(const Arm& arm) {
  check_arm(arm, user_count(), shape());
  unit_arms_.clear();
  const Candidate one = candidate({}, arm);
  std::size_t position = 0;
  pass({&one, 1});
  std::vector<UserId> cluster = rounds_->members(position);
  if (options_.pre_clusters == 0) {
    return cluster;
  }
  std::vector<UserId> users;
  for (std::size_t user = 0; user < user_count(); ++user) {
    if (std::ranges::binary_search(cluster, learner_of_[user])) {
      users.push_back(UserId{static_cast<std::uint32_t>(user)});
    }
  }
  return users;
}

void DeviceMcnb::learn(RoundId round, const Arm& arm, float reward) {
  check_feedback(round, arm, reward, user_count(), shape());
  unit_arms_.clear();
  if (!learn_there(candidate(round, arm), reward)) {
    change_on_host([&](Mcnb& host) { host.learn(round, arm, reward); });
  }
}

// Mcnb::learn_reward on the device. Returns false, and changes nothing, if a step needs damping.
bool DeviceMcnb::learn_there(const Candidate& served, float reward) {
  const Features x = served.arm.features;
  std::size_t position = 0;
  if (!is_in_last_pass(served, position)) {
    pass({&served, 1});
    position = 0;
  }
  const device::PassResult result = last_results_[position];
  if (!is_ordinary(rounds_->learner_of_pass(position), {x, reward})) {
    return false;
  }
  const bool alone =
      options_.feedback == Feedback::kServed || has_own_datum_[index(served.learner)] == 0;
  const device::LessonResult lesson = rounds_->begin_lesson(position, alone, reward);
  if (result.draws > 0 &&
      !meta_.accepts(x, lesson.theta, result.has_ordinary_rewards, options_.eta_2, scratch_)) {
    return false;
  }
  std::ranges::copy(lesson.theta, meta_.parameters().begin());
  rounds_->finish_lesson();
  last_pass_.clear();
  has_own_datum_[index(served.learner)] = 1;
  steps_.training += result.draws + lesson.members;
  ++feedbacks_;
  return true;
}

bool DeviceMcnb::is_ordinary(std::span<const float> learner, const Sample& sample) {
  find_gradient(shape_, learner, sample.features, gradient_);
  return std::isfinite(gradient_.value) &&
         is_ordinary_step(shape_, gradient_, sample.reward, static_cast<float>(options_.eta_1));
}

bool DeviceMcnb::forget(UserId user) {
  bool forgotten = false;
  change_on_host([&](Mcnb& host) { forgotten = host.forget(user); });
  return forgotten;
}

// The learner that stands for the arm's user, and the features as the networks see them.
Candidate DeviceMcnb::candidate(RoundId round, const Arm& arm) {
  if (arm.features.values.size() != shape_.inputs) {
    throw Error(ErrorKind::kInput,
                fmt::format("arm {}: expected all {} features with device=cuda, got {} at {}",
                            index(arm.index), shape_.inputs, arm.features.values.size(),
                            arm.features.offset));
  }
  Candidate one{round, arm, learner_of(arm.user)};
  if (options_.normalise == Normalise::kUnit) {
    one.arm.features = unit_arms_.scaled(arm.features);
  }
  return one;
}

void DeviceMcnb::make_users(std::uint32_t events_per_user, std::uint64_t seed, float scale) {
  rounds_->make_users(events_per_user, seed, scale);
  last_pass_.clear();
  std::ranges::fill(has_own_datum_, std::uint8_t{1});
}

std::unique_ptr<Mcnb> DeviceMcnb::to_host() const {
  ++moves_to_host_;
  McnbOptions options = options_;
  options.pre_clusters = 0;  // who has which learner is known
  auto host = std::make_unique<Mcnb>(
      options,
      PolicySetup{.inputs = shape_.inputs, .users = 1, .seed = seed_, .threads = &threads_});
  const device::Contents contents = rounds_->download();
  const std::size_t size = shape_.parameter_count();
  NetworkPool learners(shape_, start_);
  learners.add_users(contents.trained.size());
  for (std::size_t i = 0; i < contents.trained.size(); ++i) {
    const std::span<const float> network(contents.learners.data() + i * size, size);
    if (!std::ranges::equal(network, start_)) {
      learners.set_parameters(UserId{static_cast<std::uint32_t>(i)}, network);
    }
  }
  std::vector<Sample> events;
  const std::size_t record = std::size_t{shape_.inputs} + 1;
  for (std::size_t at = 0; at < contents.events.size(); at += record) {
    events.push_back(
        {{{contents.events.data() + at, shape_.inputs}}, contents.events[at + shape_.inputs]});
  }
  Histories histories(seed_, 0);
  histories.assign(events, contents.references);
  host->set_contents(std::move(learners), contents.theta, std::move(histories),
                     {contents.trained, has_own_datum_, learner_of_, feedbacks_, steps_});
  return host;
}

void DeviceMcnb::from_host(const Mcnb& host) {
  Mcnb::Counters counters = host.counters();
  device::Contents contents;
  const std::span<const float> theta = host.meta_learner().parameters();
  contents.theta.assign(theta.begin(), theta.end());
  const NetworkPool& learners = host.user_learners();
  const Histories& histories = host.histories();
  for (std::uint32_t i = 0; i < learners.user_count(); ++i) {
    const std::span<const float> network = learners.parameters(UserId{i});
    contents.learners.insert(contents.learners.end(), network.begin(), network.end());
    contents.references.push_back(histories.events(UserId{i}));
  }
  for (std::uint32_t event = 0; event < histories.event_slots(); ++event) {
    const Sample sample = histories.sample(EventId{event});
    const std::span<const float> x = sample.features.values;
    if (!x.empty() && x.size() != shape_.inputs) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("event {}: expected all {} features with device=cuda, got {}", event,
                              shape_.inputs, x.size()));
    }
    contents.events.insert(contents.events.end(), x.begin(), x.end());
    contents.events.resize((event + std::size_t{1}) * (shape_.inputs + std::size_t{1}));
    contents.events.back() = sample.reward;
  }
  contents.trained = counters.trained;
  last_pass_.clear();
  rounds_->upload(contents);
  std::ranges::copy(theta, meta_.parameters().begin());
  has_own_datum_ = std::move(counters.has_own_datum);
  learner_of_ = std::move(counters.learner_of);
  feedbacks_ = counters.feedbacks;
  steps_ = counters.steps;
}

void DeviceMcnb::change_on_host(const std::function<void(Mcnb&)>& change) {
  const std::unique_ptr<Mcnb> host = to_host();
  change(*host);
  from_host(*host);
}

std::size_t DeviceMcnb::memory_bytes() const {
  return sizeof *this + rounds_->memory_bytes() + meta_.memory_bytes() +
         learner_of_.capacity() * sizeof learner_of_[0] + has_own_datum_.capacity();
}

void DeviceMcnb::save(StateWriter& writer) const { to_host()->save(writer); }

void DeviceMcnb::load(StateReader& reader) {
  const std::unique_ptr<Mcnb> host = to_host();
  host->load(reader);
  from_host(*host);
}

}  // namespace mcnb
