#include "mcnb/bandit/mcnb/mcnb.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "mcnb/bandit/mcnb/divergence.h"
#include "mcnb/bandit/mcnb/feedback_clusters.h"
#include "mcnb/bandit/mcnb/pre_clusters.h"
#include "mcnb/bandit/mcnb/scoped_timer.h"
#include "mcnb/bandit/mcnb/upper_bound.h"
#include "mcnb/base/error.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb {
namespace {

NetworkPool make_learners(const McnbOptions& options, const PolicySetup& setup) {
  check_mcnb_options(options);
  const NetworkShape shape = options.network.shape(setup.inputs);
  return {shape, random_network(shape, options.network.initialisation, setup.seed)};
}

std::uint64_t total_steps(std::span<const AdaptedMeta> metas) {
  return std::accumulate(
      metas.begin(), metas.end(), std::uint64_t{0},
      [](std::uint64_t sum, const AdaptedMeta& meta) { return sum + meta.steps; });
}

}  // namespace

Mcnb::Mcnb(const McnbOptions& options, const PolicySetup& setup)
    : options_(options),
      seed_(setup.seed),
      threads_(*setup.threads),
      learners_(make_learners(options, setup)),
      meta_(learners_.shape(), {learners_.start().begin(), learners_.start().end()}),
      histories_(setup.seed, static_cast<std::size_t>(options.history_limit)),
      learner_of_(assign_learners(setup, static_cast<std::size_t>(options.pre_clusters))),
      cluster_finder_(static_cast<float>(options.gamma * (options.nu - 1.0) / options.nu)),
      walk_(options, setup.seed, cluster_finder_.gap()),
      replay_(options, setup.seed) {
  if (learner_of_.empty()) {
    throw Error(ErrorKind::kUsage, "users: expected at least 1, got 0");
  }
  const std::size_t learners = index(*std::ranges::max_element(learner_of_)) + 1;
  learners_.add_users(learners);
  histories_.add_users(learners);
  trained_.resize(learners);
  has_own_datum_.resize(learners);
}

// Nothing is known about users who come later, so each has a learner of its own.
void Mcnb::add_users(std::size_t count) {
  last_decision_.clear();
  learners_.add_users(count);
  histories_.add_users(count);
  for (std::size_t i = 0; i < count; ++i) {
    learner_of_.push_back(UserId{static_cast<std::uint32_t>(trained_.size())});
    trained_.push_back(0);
    has_own_datum_.push_back(0);
  }
}

void Mcnb::start(UserId user, const Sample& sample) {
  check_start(user, sample, user_count(), shape());
  unit_arms_.clear();
  const Sample scaled{seen(sample.features), sample.reward};
  const Cluster alone{learner_of(user)};
  check_step(alone[0], scaled);
  step_learners(alone, alone[0], scaled);
  count_training(alone);
  remember(alone, alone[0], scaled);
}

// The decision of Algorithm 1. Each line stands for all arms x_i of the round.
ArmIndex Mcnb::choose(const Round& round) {
  check_round(round, user_count(), shape());
  unit_arms_.clear();
  const std::vector<Candidate> arms = preselect(round).kept;
  std::vector<FoundCluster> clusters = users_like(arms);                      // N_u(x_i)
  const std::vector<AdaptedMeta> metas = adapt_meta_learner(arms, clusters);  // Theta_i = SGD_Meta
  const std::vector<Score> bounds = upper_bounds(arms, clusters, metas);      // U_i
  const ArmIndex best = arms[index(highest(bounds))].arm.index;               // argmax U_i
  steps_.adaptation += total_steps(metas);
  last_decision_.remember(arms, std::move(clusters));
  return best;
}

void Mcnb::learn(RoundId round, const Arm& arm, float reward) {
  check_feedback(round, arm, reward, user_count(), shape());
  unit_arms_.clear();
  learn_reward(candidate(round, arm), reward);
}

// The update of Algorithm 1, with the reward r of the chosen arm x. By the options, v stands for
// the members of the cluster or for the served user alone.
void Mcnb::learn_reward(const Candidate& served, float reward) {
  const Sample sample{served.arm.features, reward};
  const FoundCluster cluster = cluster_of_feedback(served);  // N_u(x)
  const Cluster alone{served.learner};
  const Cluster& learners = learns_alone(served.learner) ? alone : cluster.members;
  if (is_online()) {
    check_step(served.learner, sample);
    move_meta_learner(served, cluster);               // Theta = SGD_Meta(N_u(x))
    step_learners(learners, served.learner, sample);  // theta^v = theta^v - eta_1 grad L(theta^v)
  }
  count_training(learners);                    // mu^v = mu^v + 1
  remember(learners, served.learner, sample);  // T^v = T^v + (x, r)
  ++feedbacks_;
  if (replay_.is_due(feedbacks_)) {
    train_on_history(served.learner);
  }
}

std::vector<Score> Mcnb::scores(const Round& round) {
  return std::move(scores_of({&round, 1}).front());
}

// Several rounds share a pass over the learners, as far as memory for their clusters allows.
std::vector<std::vector<Score>> Mcnb::scores_of(std::span<const Round> rounds) {
  unit_arms_.clear();
  std::vector<std::vector<Score>> all(rounds.size());
  std::vector<Preselection> selected;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    check_round(rounds[i], user_count(), shape());
    selected.push_back(preselect(rounds[i]));
    for (const float estimate : selected[i].estimates) {
      all[i].push_back(mcnb_score(estimate, 0.0, 0.0, 0));
      all[i].back().considered = false;
    }
    all[i].resize(rounds[i].arms.size());
  }
  const std::size_t most_arms = ClusterFinder::arms_per_pass(learners_.user_count());
  std::vector<Candidate> arms;
  for (std::size_t begin = 0, end = 0; begin < rounds.size(); begin = end) {
    arms.clear();
    do {
      arms.insert(arms.end(), selected[end].kept.begin(), selected[end].kept.end());
      ++end;
    } while (end < rounds.size() && arms.size() + selected[end].kept.size() <= most_arms);
    const std::vector<FoundCluster> clusters = users_like(arms);
    const std::vector<AdaptedMeta> metas = adapt_meta_learner(arms, clusters);
    const std::vector<Score> bounds = upper_bounds(arms, clusters, metas);
    auto bound = bounds.begin();
    for (std::size_t i = begin; i < end; ++i) {
      for (const Candidate& kept : selected[i].kept) {
        all[i][index(kept.arm.index)] = *bound++;
      }
    }
  }
  return all;
}

// Feedback that changes one learner each can share a pass over all learners.
std::vector<Refusal> Mcnb::learn_all(std::span<const RewardedArm> rewarded) {
  if (options_.feedback != Feedback::kServed || !is_online() || samples_learners()) {
    return Policy::learn_all(rewarded);
  }
  unit_arms_.clear();
  std::vector<Refusal> refused;
  std::vector<Candidate> arms;
  std::vector<std::size_t> indices;  // of the arms in the batch
  for (std::size_t i = 0; i < rewarded.size(); ++i) {
    const auto& [round, arm, reward] = rewarded[i];
    try {
      check_feedback(round, arm, reward, user_count(), shape());
      arms.push_back(candidate(round, arm));
      indices.push_back(i);
    } catch (const Error& error) {
      refused.push_back({i, error});
    }
  }
  const std::size_t most_arms = ClusterFinder::arms_per_pass(learners_.user_count());
  for (std::size_t begin = 0; begin < arms.size(); begin += most_arms) {
    const std::size_t count = std::min(most_arms, arms.size() - begin);
    learn_batch(std::span(arms).subspan(begin, count), std::span(indices).subspan(begin, count),
                rewarded, refused);
  }
  std::ranges::sort(refused, {}, &Refusal::index);
  return refused;
}

// Learns the rewards with these indices, whose arms are given, and adds those that `learn` refuses.
void Mcnb::learn_batch(std::span<const Candidate> arms, std::span<const std::size_t> indices,
                       std::span<const RewardedArm> rewarded, std::vector<Refusal>& refused) {
  const auto timed = [&](auto action) {
    const ScopedTimer timer(seconds_.clustering);
    return action();
  };
  FeedbackClusters clusters =
      timed([&] { return FeedbackClusters(threads_, learners_, arms, cluster_finder_.gap()); });
  for (std::size_t i = 0; i < arms.size(); ++i) {
    try {
      // `learn_reward` takes the cluster from the last decision.
      last_decision_.remember({&arms[i], 1}, {{timed([&] { return clusters.find(i); })}});
      learn_reward(arms[i], rewarded[indices[i]].reward);
    } catch (const Error& error) {
      refused.push_back({indices[i], error});
    }
    clusters.note_change(arms[i].learner);
  }
}

bool Mcnb::forget(UserId user) {
  if (index(user) >= user_count()) {
    throw Error(ErrorKind::kInput,
                fmt::format("user {} is unknown, there are {} users", index(user), user_count()));
  }
  const UserId learner = learner_of(user);
  if (std::ranges::count(learner_of_, learner) > 1) {
    return false;  // the learner of a pre-cluster does not show what came from whom
  }
  last_decision_.clear();
  if (learners_.is_distinct(learner)) {
    learners_.set_parameters(learner, learners_.start());
  }
  histories_.forget(learner);
  walk_.forget(learner);
  trained_[index(learner)] = 0;
  has_own_datum_[index(learner)] = 0;
  return true;
}

// The features as all networks see them, valid until the end of the present call.
Features Mcnb::seen(const Features& x) {
  return options_.normalise == Normalise::kUnit ? unit_arms_.scaled(x) : x;
}

Candidate Mcnb::candidate(RoundId round, const Arm& arm) {
  Candidate one{round, arm, learner_of(arm.user)};
  one.arm.features = seen(arm.features);
  return one;
}

// Keeps all arms, or those with the highest plain estimates f(x; Theta).
Mcnb::Preselection Mcnb::preselect(const Round& round) {
  Preselection selection;
  std::vector<Candidate> all;
  for (const Arm& arm : round.arms) {
    all.push_back(candidate(round.id, arm));
  }
  std::vector<std::size_t> kept(round.arms.size());
  std::iota(kept.begin(), kept.end(), std::size_t{0});
  if (options_.keep_arms > 0 && options_.keep_arms < kept.size()) {
    std::vector<float>& estimates = selection.estimates;
    for (const Candidate& one : all) {
      estimates.push_back(meta_.estimate(one.arm.features));
    }
    std::ranges::stable_sort(
        kept, [&](std::size_t a, std::size_t b) { return estimates[a] > estimates[b]; });
    kept.resize(static_cast<std::size_t>(options_.keep_arms));
    std::ranges::sort(kept);
  }
  for (const std::size_t i : kept) {
    selection.kept.push_back(all[i]);
  }
  return selection;
}

// Arms are independent of each other, so threads share them.
std::vector<AdaptedMeta> Mcnb::adapt_meta_learner(std::span<const Candidate> arms,
                                                  std::span<const FoundCluster> clusters) {
  const ScopedTimer timer(seconds_.adaptation);
  std::vector<AdaptedMeta> metas(arms.size());
  const std::size_t shares = std::min(arms.size(), 2 * threads_.thread_count());
  grow_memories(shares);
  if (!is_online() && !arms.empty()) {  // Theta stays as it is until the next training
    meta_.keep_sums(histories_, arms[0].arm.features);
  }
  threads_.parallel_for(shares, 1, [&](std::size_t share, std::size_t) {
    auto& [draws, scratch] = memories_[share];
    for (std::size_t i = share; i < arms.size(); i += shares) {
      const auto& [round, arm, learner] = arms[i];
      metas[i] =
          meta_.adapted_at(arm.features, draws.draw(histories_, clusters[i], round, arm.index),
                           histories_, options_.eta_2, scratch);
    }
  });
  return metas;
}

std::vector<Score> Mcnb::upper_bounds(std::span<const Candidate> arms,
                                      std::span<const FoundCluster> clusters,
                                      std::span<const AdaptedMeta> metas) const {
  std::vector<Score> bounds;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    bounds.push_back(
        upper_bound(options_, metas[i], trained_[index(arms[i].learner)], clusters[i].size));
    bounds.back().cluster_sample = clusters[i].sample;
  }
  return bounds;
}

// A user's first own feedback stands for the start datum and is that user's alone. Otherwise users
// who were trained only on the feedback of others would stay equal for ever.
bool Mcnb::learns_alone(UserId learner) const {
  return options_.feedback == Feedback::kServed || has_own_datum_[index(learner)] == 0;
}

// Refuses, before anything changes, a sample that the served learner has no finite value for.
void Mcnb::check_step(UserId served, const Sample& sample) const {
  std::vector<float> activations(shape().hidden_count());
  const float value =
      kernels::forward(shape(), learners_.parameters(served).data(), sample.features.values,
                       sample.features.offset, activations.data());
  if (!std::isfinite(value)) {
    refuse_diverged(learner_name(served), "eta_1", options_.eta_1);
  }
}

// Theta = SGD_Meta(N_u(x)), with the draws that the decision about x had.
void Mcnb::move_meta_learner(const Candidate& served, const FoundCluster& cluster) {
  const ScopedTimer timer(seconds_.adaptation);
  grow_memories(1);
  auto& [draws, scratch] = memories_[0];
  const std::span<const std::vector<Draw>> steps =
      draws.draw(histories_, cluster, served.round, served.arm.index);
  if (!meta_.adapt(served.arm.features, steps, histories_, options_.eta_2, scratch)) {
    refuse_diverged("the meta-learner", "eta_2", options_.eta_2);
  }
  for (const std::vector<Draw>& step : steps) {
    steps_.training += step.size();
  }
}

// theta^v = theta^v - eta_1 grad (f(x; theta^v) - r)^2 / 2. Only the step of the served learner is
// tested: if it is ordinary, all learners take plain steps, otherwise each is damped where it needs
// to be. The learners agree on f(x) up to the cluster's gap, but not on |grad f(x)|, so the plain
// step of another member may be longer than is_ordinary_step allows. This is accepted: a test of
// each member would cost about as much as its step, and a learner is tested when it is served.
void Mcnb::step_learners(std::span<const UserId> learners, UserId served, const Sample& sample) {
  const ScopedTimer timer(seconds_.training);
  last_decision_.clear();
  const auto rate = static_cast<float>(options_.eta_1);
  GradientFactors& gradient = step_scratch_.gradient;
  find_gradient(shape(), learners_.parameters(served), sample.features, gradient);
  if (is_ordinary_step(shape(), gradient, sample.reward, rate)) {
    learners_.step(threads_, learners, sample, rate);
  } else {
    std::vector<float> stepped;
    for (const UserId learner : learners) {
      const std::span<const float> parameters = learners_.parameters(learner);
      stepped.assign(parameters.begin(), parameters.end());
      take_damped_step(shape(), stepped, sample, rate, step_scratch_);
      learners_.set_parameters(learner, stepped);
    }
  }
  steps_.training += learners.size();
}

void Mcnb::count_training(std::span<const UserId> learners) {
  const ScopedTimer timer(seconds_.training);
  for (const UserId learner : learners) {
    ++trained_[index(learner)];
  }
}

void Mcnb::remember(std::span<const UserId> learners, UserId served, const Sample& sample) {
  const ScopedTimer timer(seconds_.training);
  has_own_datum_[index(served)] = 1;
  const bool is_first = histories_.size(served) == 0;
  meta_.forget(histories_.add(learners, sample));
  if (is_first && samples_learners()) {
    walk_.add(served);  // the only learner that the reward is for
  }
}

void Mcnb::train_on_history(UserId learner) {
  const ScopedTimer timer(seconds_.training);
  last_decision_.clear();
  const ReplayReport report =
      replay_.train(threads_, feedbacks_, learner, histories_, learners_, meta_);
  steps_.training += report.steps;
  if (report.user_diverged || report.meta_diverged) {
    refuse_diverged(
        (report.user_diverged ? learner_name(learner) : "the meta-learner") + ", in its training,",
        "learning_rate", options_.replay.learning_rate);
  }
}

void Mcnb::grow_memories(std::size_t count) {
  while (memories_.size() < count) {
    memories_.push_back({MemberDraws(options_, seed_), {}});
  }
}

Mcnb::Counters Mcnb::counters() const {
  return {trained_, has_own_datum_, learner_of_, feedbacks_, steps_};
}

void Mcnb::set_contents(NetworkPool learners, std::span<const float> theta, Histories histories,
                        Counters counters) {
  last_decision_.clear();
  learners_ = std::move(learners);
  std::ranges::copy(theta, meta_.parameters().begin());
  histories_ = std::move(histories);
  trained_ = std::move(counters.trained);
  has_own_datum_ = std::move(counters.has_own_datum);
  learner_of_ = std::move(counters.learner_of);
  feedbacks_ = counters.feedbacks;
  steps_ = counters.steps;
}

std::size_t Mcnb::memory_bytes() const {
  std::size_t bytes = sizeof *this + learners_.memory_bytes() + histories_.memory_bytes() +
                      meta_.memory_bytes() + trained_.capacity() * sizeof trained_[0] +
                      has_own_datum_.capacity() + learner_of_.capacity() * sizeof learner_of_[0] +
                      unit_arms_.memory_bytes() + cluster_finder_.memory_bytes() +
                      walk_.memory_bytes() + last_decision_.memory_bytes() + replay_.memory_bytes();
  for (const AdaptationMemory& memory : memories_) {
    bytes += memory.draws.memory_bytes() + memory.meta.memory_bytes();
  }
  return bytes;
}

void Mcnb::save(StateWriter& writer) const {
  if (!all_finite(meta_.parameters())) {
    refuse_diverged("the meta-learner", "eta_2", options_.eta_2);
  }
  learners_.save(writer);
  writer.write_all(meta_.parameters());
  writer.write_all(trained_);
  writer.write_all(has_own_datum_);
  writer.write_all(learner_of_);
  writer.write(feedbacks_);
  writer.write(steps_);
  histories_.save(writer);
  if (samples_learners()) {
    walk_.save(writer);
  }
}

void Mcnb::load(StateReader& reader) {
  last_decision_.clear();
  NetworkPool learners = NetworkPool::load(reader);
  if (learners.shape() != shape() || !std::ranges::equal(learners.start(), learners_.start())) {
    reader.fail("the networks are not those of these options and this seed");
  }
  learners_ = std::move(learners);
  const std::vector<float> theta = reader.read_all<float>(shape().parameter_count());
  trained_ = reader.read_all<std::uint32_t>(learners_.user_count());
  has_own_datum_ = reader.read_all<std::uint8_t>(learners_.user_count());
  learner_of_ = reader.read_all<UserId>(NetworkPool::kMaxUsers);
  feedbacks_ = reader.read<std::uint64_t>();
  steps_ = reader.read<StepCounts>();
  histories_.load(reader, shape());
  const bool known_learners = std::ranges::all_of(
      learner_of_, [&](UserId learner) { return index(learner) < trained_.size(); });
  if (theta.size() != shape().parameter_count() || trained_.size() != learners_.user_count() ||
      has_own_datum_.size() != trained_.size() || histories_.user_count() != trained_.size() ||
      learner_of_.empty() || !known_learners || !all_finite(theta)) {
    reader.fail("the parts of the state do not fit together");
  }
  std::ranges::copy(theta, meta_.parameters().begin());
  if (samples_learners()) {
    walk_.load(reader, histories_);
  }
}

}  // namespace mcnb
