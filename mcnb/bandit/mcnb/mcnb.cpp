#include "mcnb/bandit/mcnb/mcnb.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "mcnb/bandit/stopwatch.h"
#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/random.h"
#include "mcnb/numeric/kmeans.h"

namespace mcnb {
namespace {

constexpr std::size_t kMostPredictionsAtOnce = std::size_t{1} << 26;
constexpr std::size_t kFetchAhead = 8;       // members
constexpr std::size_t kUsersPerTurn = 8192;  // that one thread compares before it asks for more

NetworkPool make_learners(const McnbOptions& options, const PolicySetup& setup) {
  check_mcnb_options(options);
  const NetworkShape shape{.inputs = setup.inputs,
                           .width = static_cast<std::uint32_t>(options.width),
                           .depth = static_cast<std::uint32_t>(options.depth),
                           .biases = options.biases};
  return {shape, random_network(shape, options.initialisation, setup.seed)};
}

// Which learner every user of the setup has: its own, or that of its pre-cluster.
std::vector<UserId> assign_learners(const McnbOptions& options, const PolicySetup& setup) {
  std::vector<UserId> learner_of(setup.users);
  if (options.pre_clusters == 0) {
    for (std::size_t user = 0; user < setup.users; ++user) {
      learner_of[user] = UserId{static_cast<std::uint32_t>(user)};
    }
    return learner_of;
  }
  if (setup.user_feature_count == 0 ||
      setup.user_features.size() != setup.users * setup.user_feature_count) {
    throw Error(ErrorKind::kUsage, fmt::format("option pre_clusters: expected 0 where users have "
                                               "no features, got \"{}\"",
                                               options.pre_clusters));
  }
  const KMeans groups =
      k_means(setup.user_features, setup.user_feature_count,
              std::min<std::size_t>(options.pre_clusters, setup.users), setup.seed);
  for (std::size_t user = 0; user < setup.users; ++user) {
    learner_of[user] = UserId{groups.group[user]};
  }
  return learner_of;
}

[[noreturn]] void refuse_diverged(const std::string& who, const char* option, double value) {
  throw Error(ErrorKind::kInput,
              fmt::format("{} has left the finite numbers: expected smaller features or a smaller "
                          "{} than {}",
                          who, option, value));
}

bool same_features(const Features& a, const Features& b) {
  return a.offset == b.offset && std::ranges::equal(a.values, b.values);
}

}  // namespace

Mcnb::Mcnb(const McnbOptions& options, const PolicySetup& setup)
    : options_(options),
      seed_(setup.seed),
      threads_(*setup.threads),
      learners_(make_learners(options, setup)),
      meta_(learners_.shape(), {learners_.start().begin(), learners_.start().end()}),
      histories_(setup.seed, static_cast<std::size_t>(options.history_limit)),
      learner_of_(assign_learners(options, setup)) {
  if (learner_of_.empty()) {
    throw Error(ErrorKind::kUsage, "users: expected at least 1, got 0");
  }
  const std::size_t learners = index(*std::ranges::max_element(learner_of_)) + 1;
  learners_.add_users(learners);
  histories_.add_users(learners);
  trained_.resize(learners);
  has_own_datum_.resize(learners);
}

// Of those that come later nothing is known: each has a learner of its own.
void Mcnb::add_users(std::size_t count) {
  decision_.fresh = false;
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
  decision_.fresh = false;
  const UserId learner = learner_of(user);
  check_step({&learner, 1}, learner, sample);
  learners_.step(threads_, {&learner, 1}, sample, static_cast<float>(options_.eta_1));
  ++trained_[index(learner)];
  has_own_datum_[index(learner)] = 1;
  ++steps_.training;
  histories_.add({&learner, 1}, sample);
}

ArmIndex Mcnb::choose(const Round& round) {
  check_round(round, user_count(), shape());
  decision_.fresh = false;
  const Scored scored = score_arms(round, decision_.clusters);
  steps_.adaptation += scored.steps;
  remember(round);
  return highest(scored.scores);
}

std::vector<Score> Mcnb::scores(const Round& round) {
  check_round(round, user_count(), shape());
  std::vector<Cluster> clusters;
  return score_arms(round, clusters).scores;
}

std::optional<std::vector<UserId>> Mcnb::cluster(const Arm& arm) {
  check_arm(arm, user_count(), shape());
  const Cluster cluster = users_like(arm);
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

// The places of the arms to look at: all, or those with the highest plain estimates f(x; Theta).
std::vector<std::size_t> Mcnb::preselect(const Round& round, std::vector<Score>& scores) {
  std::vector<std::size_t> places(round.arms.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  if (options_.keep_arms == 0 || options_.keep_arms >= places.size()) {
    return places;
  }
  std::vector<float> activations(shape().hidden_count());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Features& x = round.arms[i].features;
    const float estimate = kernels::forward(shape(), meta_.parameters().data(), x.values, x.offset,
                                            activations.data());
    scores[i] = {.value = estimate, .estimate = estimate, .cluster_size = 0, .considered = false};
  }
  std::ranges::stable_sort(places, [&](std::size_t a, std::size_t b) {
    return scores[a].estimate > scores[b].estimate;
  });
  places.resize(static_cast<std::size_t>(options_.keep_arms));
  std::ranges::sort(places);
  return places;
}

Mcnb::Scored Mcnb::score_arms(const Round& round, std::vector<Cluster>& clusters) {
  Scored scored{.scores = std::vector<Score>(round.arms.size())};
  std::vector<Score>& scores = scored.scores;
  clusters.resize(round.arms.size());
  for (Cluster& cluster : clusters) {
    cluster.clear();
  }
  std::vector<Place> places;
  for (const std::size_t i : preselect(round, scores)) {
    places.push_back({round.id, &round.arms[i], &scores[i], &clusters[i]});
  }
  scored.steps = score_places(places);
  return scored;
}

std::size_t Mcnb::most_arms_at_once() const {
  return std::max<std::size_t>(kMostPredictionsAtOnce / learners_.user_count(), 1);
}

// Scores arms and finds their clusters, as many at once as there is room for. Returns the steps of
// all adaptations.
std::uint64_t Mcnb::score_places(std::span<const Place> places) {
  std::uint64_t steps = 0;
  const std::size_t at_once = std::min(most_arms_at_once(), places.size());
  std::vector<Features> features;
  for (std::size_t begin = 0; begin < places.size(); begin += at_once) {
    const std::span<const Place> some =
        places.subspan(begin, std::min(at_once, places.size() - begin));
    features.clear();
    for (const Place& place : some) {
      features.push_back(place.arm->features);
    }
    // Arms are independent of each other.
    Stopwatch watch;
    learners_.predict(threads_, features, predictions_);
    const std::size_t arms_per_turn = kUsersPerTurn / learners_.user_count() + 1;
    threads_.parallel_for(some.size(), arms_per_turn, [&](std::size_t first, std::size_t end) {
      for (std::size_t i = first; i < end; ++i) {
        find_cluster(learner_of(some[i].arm->user), predictions_.row(i), *some[i].cluster);
      }
    });
    seconds_.clustering += watch.lap();
    // A share of the arms has one scratch memory.
    const std::size_t shares = std::min(some.size(), 2 * threads_.thread_count());
    scratch_.resize(std::max(scratch_.size(), shares));
    for (Scratch& scratch : scratch_) {
      scratch.adaptation_steps = 0;
    }
    threads_.parallel_for(shares, 1, [&](std::size_t share, std::size_t) {
      for (std::size_t i = share; i < some.size(); i += shares) {
        *some[i].score = score(*some[i].arm, some[i].round, *some[i].cluster, scratch_[share]);
      }
    });
    seconds_.adaptation += watch.lap();
    for (std::size_t share = 0; share < shares; ++share) {
      steps += scratch_[share].adaptation_steps;
    }
  }
  return steps;
}

Score Mcnb::score(const Arm& arm, RoundId round, const Cluster& cluster, Scratch& scratch) const {
  draw_samples(cluster, round, arm.index, scratch);
  for (const std::vector<Draw>& draws : scratch.draws) {
    scratch.adaptation_steps += draws.size();
  }
  const AdaptedMeta meta =
      meta_.seen_from(arm.features, scratch.draws, histories_, options_.eta_2, scratch.meta);
  Score score;
  score.estimate = options_.nonnegative ? std::max(0.0, double{meta.estimate}) : meta.estimate;
  score.meta_bonus = options_.exploration * meta.gradient_move /
                     std::sqrt(std::sqrt(static_cast<double>(options_.width)));
  score.user_bonus = options_.exploration * user_bonus(learner_of(arm.user));
  score.value = score.estimate + score.meta_bonus + score.user_bonus;
  score.cluster_size = cluster.size();
  if (!std::isfinite(score.value)) {
    refuse_diverged("the meta-learner", "eta_2", options_.eta_2);
  }
  return score;
}

double Mcnb::user_bonus(UserId learner) const {
  const double trained = std::max<std::uint32_t>(trained_[index(learner)], 1);
  return std::sqrt((options_.s + 1.0) / (2.0 * trained)) +
         std::sqrt(2.0 * std::log(1.0 / options_.delta) / trained);
}

void Mcnb::find_cluster(UserId learner, std::span<const float> estimates, Cluster& cluster) const {
  const auto gap = static_cast<float>(options_.gamma * (options_.nu - 1.0) / options_.nu);
  const float own = estimates[index(learner)];
  if (!std::isfinite(own)) {
    refuse_diverged(fmt::format("the user-learner {}", index(learner)), "eta_1", options_.eta_1);
  }
  // Written without a branch: whether a user belongs is hard to foresee.
  cluster.resize(estimates.size());
  std::size_t found = 0;
  for (std::size_t i = 0; i < estimates.size(); ++i) {
    cluster[found] = UserId{static_cast<std::uint32_t>(i)};
    found += std::abs(estimates[i] - own) <= gap ? 1 : 0;
  }
  cluster.resize(found);
}

Mcnb::Cluster Mcnb::users_like(const Arm& arm) {
  learners_.predict(threads_, {&arm.features, 1}, predictions_);
  Cluster cluster;
  find_cluster(learner_of(arm.user), predictions_.row(0), cluster);
  return cluster;
}

void Mcnb::draw_samples(const Cluster& cluster, RoundId round, ArmIndex arm,
                        Scratch& scratch) const {
  scratch.event_weights.resize(histories_.event_slots());
  std::vector<UserId>& members = scratch.with_history;
  members.clear();
  for (const UserId member : cluster) {
    if (histories_.size(member) > 0) {
      members.push_back(member);
    }
  }
  scratch.draws.resize(static_cast<std::size_t>(options_.meta_steps));
  for (std::size_t step = 0; step < scratch.draws.size(); ++step) {
    const auto place = static_cast<std::uint32_t>(step << 16 | index(arm));
    draw_step(members, round, place, scratch, scratch.draws[step]);
  }
}

// The draws of one step. Its place (step and arm) and the member's number address every draw, so
// feedback that comes later can repeat them. Members that draw the same event share it.
void Mcnb::draw_step(std::span<UserId> members, RoundId round, std::uint32_t place,
                     Scratch& scratch, std::vector<Draw>& draws) const {
  const std::size_t count = members.size();
  const bool all = options_.meta_samples == 0 || options_.meta_samples >= count;
  const std::size_t taken = all ? count : static_cast<std::size_t>(options_.meta_samples);
  // The members that take part go to the front, as in a sample without replacement, and back at the
  // end: no step may depend on the one before.
  scratch.swaps.clear();
  if (!all) {
    Rng rng(seed_, Stream::kMetaMembers, index(round), place);
    for (std::size_t i = 0; i < taken; ++i) {
      scratch.swaps.push_back(i + static_cast<std::size_t>(rng.below(count - i)));
      std::swap(members[i], members[scratch.swaps[i]]);
    }
  }
  draws.clear();
  const auto add = [&](EventId event, float weight) {
    float& sum = scratch.event_weights[index(event)];
    if (sum == 0.0F) {
      draws.push_back({event, 0.0F});
    }
    sum += weight;
  };
  const RngFamily family(Rng(seed_, Stream::kMetaDraw, index(round), place));
  if (options_.meta_draw == MetaDraw::kOne) {
    scratch.numbers.clear();
    for (const UserId member : members.first(taken)) {
      scratch.numbers.push_back(static_cast<std::uint32_t>(member));
    }
    scratch.words.resize(taken);
    kernels::first_words(family, scratch.numbers, scratch.words.data());
  }
  for (std::size_t i = 0; i < taken; ++i) {
    const UserId member = members[i];
    histories_.fetch(members[std::min(i + kFetchAhead, taken - 1)]);
    const std::vector<std::uint32_t>& history = histories_.events(member);
    if (options_.meta_draw == MetaDraw::kOne) {
      // What Rng::below does with its first word, where that is enough: nearly always.
      const std::uint64_t product = std::uint64_t{scratch.words[i]} * history.size();
      const std::uint64_t drawn = static_cast<std::uint32_t>(product) >= history.size()
                                      ? product >> 32
                                      : family.member(index(member)).below(history.size());
      add(EventId{history[static_cast<std::size_t>(drawn)]}, 1.0F);
    } else {
      for (const std::uint32_t event : history) {
        add(EventId{event}, 1.0F / static_cast<float>(history.size()));
      }
    }
  }
  for (Draw& draw : draws) {
    float& sum = scratch.event_weights[index(draw.event)];
    draw.weight = sum / static_cast<float>(taken);
    sum = 0.0F;
  }
  for (std::size_t i = scratch.swaps.size(); i-- > 0;) {
    std::swap(members[i], members[scratch.swaps[i]]);
  }
}

void Mcnb::remember(const Round& round) {
  decision_.id = round.id;
  decision_.arms = round.arms;
  std::size_t count = 0;
  for (const Arm& arm : round.arms) {
    count += arm.features.values.size();
  }
  decision_.values.resize(count);
  float* to = decision_.values.data();
  for (Arm& arm : decision_.arms) {
    const std::span<const float> from = arm.features.values;
    std::ranges::copy(from, to);
    arm.features.values = {to, from.size()};
    to += from.size();
  }
  decision_.fresh = true;
}

// The cluster of an arm of the last decision, where nothing has changed since.
const Mcnb::Cluster* Mcnb::remembered(RoundId round, const Arm& arm) const {
  const std::size_t place = index(arm.index);
  if (!decision_.fresh || decision_.id != round || place >= decision_.arms.size()) {
    return nullptr;
  }
  const Arm& known = decision_.arms[place];
  const Cluster& cluster = decision_.clusters[place];
  return known.user == arm.user && same_features(known.features, arm.features) && !cluster.empty()
             ? &cluster
             : nullptr;
}

// A user's first own feedback stands for the start datum: it is that user's alone. Else all who
// were trained on others' feedback alone would stay equal for ever.
bool Mcnb::learns_alone(UserId learner) const {
  return options_.feedback == Feedback::kServed || has_own_datum_[index(learner)] == 0;
}

void Mcnb::learn(RoundId round, const Arm& arm, float reward) {
  check_feedback(round, arm, reward, user_count(), shape());
  const UserId learner = learner_of(arm.user);
  Stopwatch watch;
  Cluster cluster{learner};
  if (options_.training == TrainingMode::kOnline || !learns_alone(learner)) {
    const Cluster* known = remembered(round, arm);
    cluster = known != nullptr ? *known : users_like(arm);
  }
  seconds_.clustering += watch.lap();
  learn_from(round, arm, reward, std::move(cluster));
}

// The part of learning that comes after the cluster is known.
void Mcnb::learn_from(RoundId round, const Arm& arm, float reward, Cluster cluster) {
  const UserId learner = learner_of(arm.user);
  const Sample sample{arm.features, reward};
  const bool online = options_.training == TrainingMode::kOnline;
  const bool alone = learns_alone(learner);
  Stopwatch watch;
  decision_.fresh = false;
  scratch_.resize(std::max<std::size_t>(scratch_.size(), 1));
  Scratch& scratch = scratch_[0];
  const Cluster only{learner};
  const Cluster& stepping = alone ? only : cluster;
  if (online) {
    check_step(stepping, learner, sample);
    draw_samples(cluster, round, arm.index, scratch);
    if (!meta_.adapt(scratch.draws, histories_, options_.eta_2, scratch.meta)) {
      refuse_diverged("the meta-learner", "eta_2", options_.eta_2);
    }
    for (const std::vector<Draw>& draws : scratch.draws) {
      steps_.training += draws.size();
    }
  }
  seconds_.adaptation += watch.lap();
  if (online) {
    learners_.step(threads_, stepping, sample, static_cast<float>(options_.eta_1));
    steps_.training += stepping.size();
  }
  for (const UserId member : stepping) {
    ++trained_[index(member)];
  }
  has_own_datum_[index(learner)] = 1;
  histories_.add(stepping, sample);
  ++feedbacks_;
  if (!online && is_due(feedbacks_, options_.train_every, options_.train_often_until,
                        options_.train_every_later)) {
    train_on_history(learner);
  }
  seconds_.training += watch.lap();
}

// Refuses a step that would leave the finite numbers, before anything changes. The users are alike
// on the sample, up to the cluster's gap: where the step of the served one is moderate, so are all.
void Mcnb::check_step(std::span<const UserId> users, UserId served, const Sample& sample) const {
  constexpr double kModerate = 1e6;
  const auto rate = static_cast<float>(options_.eta_1);
  std::vector<float> activations(shape().hidden_count());
  const float value =
      kernels::forward(shape(), learners_.parameters(served).data(), sample.features.values,
                       sample.features.offset, activations.data());
  if (std::abs(options_.eta_1 * (static_cast<double>(value) - sample.reward)) <= kModerate) {
    return;
  }
  std::vector<float> stepped;
  for (const UserId user : users) {
    const std::span<const float> parameters = learners_.parameters(user);
    stepped.assign(parameters.begin(), parameters.end());
    float* const network = stepped.data();
    kernels::sgd_step(shape(), {&network, 1}, sample.features.values, sample.features.offset,
                      sample.reward, rate);
    if (!all_finite(stepped)) {
      refuse_diverged(fmt::format("the user-learner {}", index(user)), "eta_1", options_.eta_1);
    }
  }
}

// The two trainings share nothing that either changes. One that leaves the finite numbers is
// undone.
void Mcnb::train_on_history(UserId learner) {
  const auto copy = [](std::span<const float> from) {
    return std::vector<float>(from.begin(), from.end());
  };
  const std::vector<float> own_before = copy(learners_.parameters(learner));
  const std::vector<float> theta_before = copy(meta_.parameters());
  TrainingReport reports[2];
  threads_.parallel_for(2, 1, [&](std::size_t which, std::size_t) {
    const bool own = which == 0;
    const TrainingOptions training{.optimiser = options_.optimiser,
                                   .learning_rate = static_cast<float>(options_.learning_rate),
                                   .step_limit = own ? options_.user_steps : options_.theta_steps,
                                   .stop_loss = options_.stop_loss};
    Rng order(seed_, Stream::kTrainingOrder, feedbacks_, static_cast<std::uint32_t>(which));
    TrainingScratch& scratch = training_scratch_[which];
    reports[which] =
        own ? learners_.train(learner, histories_.samples_of(learner), training, order, scratch)
            : train_network(shape(), meta_.parameters(), histories_.all_samples(), training, order,
                            scratch);
  });
  steps_.training += reports[0].steps + reports[1].steps;
  const bool own_is_finite = all_finite(learners_.parameters(learner));
  const bool theta_is_finite = all_finite(meta_.parameters());
  if (!own_is_finite) {
    learners_.set_parameters(learner, own_before);
  }
  if (!theta_is_finite) {
    std::ranges::copy(theta_before, meta_.parameters().begin());
  }
  if (!own_is_finite || !theta_is_finite) {
    refuse_diverged(own_is_finite
                        ? "the meta-learner, in its training,"
                        : fmt::format("the user-learner {}, in its training,", index(learner)),
                    "learning_rate", options_.learning_rate);
  }
}

std::size_t Mcnb::memory_bytes() const {
  std::size_t bytes = sizeof *this + learners_.memory_bytes() + histories_.memory_bytes() +
                      2 * meta_.parameters().size_bytes() +
                      trained_.capacity() * sizeof trained_[0] + has_own_datum_.capacity() +
                      learner_of_.capacity() * sizeof learner_of_[0] +
                      predictions_.arm_count() * predictions_.user_count() * sizeof(float);
  for (const Cluster& cluster : decision_.clusters) {
    bytes += cluster.capacity() * sizeof(UserId);
  }
  for (const TrainingScratch& scratch : training_scratch_) {
    bytes += scratch.memory_bytes();
  }
  for (const Scratch& scratch : scratch_) {
    bytes += scratch.event_weights.capacity() * sizeof(float) +
             scratch.with_history.capacity() * sizeof(UserId) +
             scratch.meta.draws.capacity() * sizeof(kernels::AdaptationDraw);
  }
  return bytes;
}

void Mcnb::save(StateWriter& writer) const {
  if (!std::ranges::all_of(meta_.parameters(), [](float value) { return std::isfinite(value); })) {
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
}

void Mcnb::load(StateReader& reader) {
  decision_.fresh = false;
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
      learner_of_.empty() || !known_learners ||
      !std::ranges::all_of(theta, [](float value) { return std::isfinite(value); })) {
    reader.fail("the parts of the state do not fit together");
  }
  std::ranges::copy(theta, meta_.parameters().begin());
}

}  // namespace mcnb
