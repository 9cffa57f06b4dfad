#include "mcnb/bandit/hierarchical/hierarchical.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "mcnb/bandit/hierarchical/matrix_state.h"
#include "mcnb/bandit/policy_kind.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

// Arms of more numbers have trained features, and the numbers themselves are no features.
constexpr std::size_t kMostLinear = 64;
// Products of all numbers: up to so many inputs for the shared coefficients, and for the own ones.
constexpr std::size_t kMostSharedProducts = 24;
constexpr std::size_t kMostOwnProducts = 12;

// Longer arms are shortened to this length: squares of their products would use up the digits of a
// double. Arms should have about unit length.
constexpr double kLongestArm = 100.0;

constexpr double kCalibrationRounds = 300.0;  // over which errors fade
constexpr double kCalibrationPrior = 10.0;    // rewards' worth of trust in the model
constexpr double kLargestError = 1e4;
constexpr std::uint64_t kFewestBetweenFits = 10;
constexpr double kFitsPerHalfLife = 8.0;
constexpr double kSuspicion = 3.0;  // of drift, as HalfLife::for_shorter measures it

// With products of numbers, and without. Chosen on tuning seeds: the recommendation data sets have
// products; classification, and the service's features (`mcnb bench learning`), have none.
constexpr double kAlpha = 0.3;
constexpr double kAlphaWithoutProducts = 0.5;

// Saved states begin with it; states of an earlier layout do not.
constexpr std::uint64_t kStateLayout = 0x3368637261726569;

OptionTable<HierarchicalOptions> option_table() {
  using O = HierarchicalOptions;
  OptionTable<O> table;
  table
      .number_or_auto("alpha", &O::alpha, {0.0, 1e6},
                      "standard deviations that are added to an estimate; auto: 0.3 with products, "
                      "0.5 without")
      .choice("features", &O::features,
              {{"auto", HierarchicalFeatures::kAuto},
               {"raw", HierarchicalFeatures::kRaw},
               {"products", HierarchicalFeatures::kProducts},
               {"trained", HierarchicalFeatures::kTrained}},
              "the arm's numbers, or also their products, or also a hidden layer that is trained "
              "(beyond 64 numbers, that layer alone); auto: products up to 24 numbers, in the "
              "users' own part up to 12; trained beyond 64, and where arms are blocks of a longer "
              "vector")
      .yes_no_or_auto("user_features", &O::user_features,
                      "whether the shared part also sees the features of users, where they have "
                      "any; auto: yes where arms have up to 12 numbers, without trained features")
      .yes_no_or_auto("memory", &O::memory,
                      "whether a user's rewards for an arm count more for that very arm; auto: "
                      "yes, but no with trained features")
      .yes_no("correlations", &O::correlations,
              "whether users differ along learned directions (groups), or in each feature apart; "
              "not with trained features")
      .number("gamma", &O::gamma, {0.0, 1e6}, "how far apart the estimates of one cluster may be")
      .count("first_fit", &O::first_fit, {1, 1e9}, "rewards before the first empirical Bayes")
      .number("fit_growth", &O::fit_growth, {1.01, 1e6},
              "growth of the number of rewards from one empirical Bayes to the next")
      .count("fit_users", &O::fit_users, {10, 1e9},
             "users that empirical Bayes looks at; of more it takes a random sample")
      .number_or_auto("half_life", &O::half_life, {0.0, 1e12},
                      "rewards of all users after which an older reward counts half, for tastes "
                      "that drift; 0: never; auto: chosen by empirical Bayes, but never with "
                      "trained features")
      .count("history_limit", &O::history_limit, {0, 1e9},
             "arms of a user that are remembered one by one; of older ones only sums are kept; 0: "
             "no limit, as always with trained features")
      .number("body_growth", &O::body_growth, {1.01, 1e6},
              "trained features: growth of the number of rewards from one training to the next; "
              "fit_growth does not count then")
      .count("body_units", &O::body_units, {1, 4096}, "trained features: units of the hidden layer")
      .count("body_steps", &O::body_steps, {0, 1e9},
             "trained features: the fewest steps of one training")
      .count("body_passes", &O::body_passes, {0, 1e6},
             "trained features: the fewest times that one training sees each reward")
      .number("pull", &O::pull, {0.0, 1e6},
              "trained features: how strongly what is expected for a user is pulled to zero at "
              "arms that "
              "any user has seen, in rewards of zero per reward that users have on average");
  return table;
}

std::size_t inputs_of(const PolicySetup& setup) {
  return setup.block_length > 0 ? setup.block_length : setup.inputs;
}

bool is_trained(const HierarchicalOptions& options, const PolicySetup& setup) {
  // Arms that are blocks stand for classes. On the data set Shuttle (9 numbers, 7 classes) the
  // regret with products is more than twice that with a hidden layer.
  return options.features == HierarchicalFeatures::kTrained ||
         (options.features == HierarchicalFeatures::kAuto &&
          (inputs_of(setup) > kMostLinear || setup.block_length > 0));
}

// How many features of users the model sees.
std::size_t user_features_of(const HierarchicalOptions& options, const PolicySetup& setup) {
  if (options.user_features.value_or(false) && setup.user_feature_count == 0) {
    throw Error(ErrorKind::kUsage,
                "option user_features: must be no or auto because these users have no features");
  }
  const bool are_seen = options.user_features.value_or(inputs_of(setup) <= kMostOwnProducts &&
                                                       !is_trained(options, setup));
  return are_seen ? setup.user_feature_count : 0;
}

// Without a body.
FeatureMap::Options map_options(const HierarchicalOptions& options, const PolicySetup& setup) {
  const std::size_t inputs = inputs_of(setup);
  const bool all = options.features == HierarchicalFeatures::kProducts;
  const bool fitting =
      options.features == HierarchicalFeatures::kAuto && !is_trained(options, setup);
  return {.inputs = inputs,
          .linear = inputs <= kMostLinear,
          .shared_products = all || (fitting && inputs <= kMostSharedProducts),
          .own_products = all || (fitting && inputs <= kMostOwnProducts),
          .user_features = user_features_of(options, setup),
          .body = nullptr};
}

FeatureMap make_map(const HierarchicalOptions& options, const PolicySetup& setup) {
  const std::size_t inputs = inputs_of(setup);
  const bool trained = is_trained(options, setup);
  if (inputs > kMostLinear && !trained) {
    throw Error(ErrorKind::kUsage,
                fmt::format("option features: must be trained (or auto) because arms have {} "
                            "numbers, more than {}",
                            inputs, kMostLinear));
  }
  FeatureMap::Options map = map_options(options, setup);
  if (trained) {
    map.body = std::make_shared<const FeatureBody>(inputs, options.body_units, setup.seed);
  }
  return FeatureMap(map);
}

// The shared coefficients and the scales, with a copy of both while a fit runs, and a history and a
// small matrix for each learner.
PolicySize hierarchical_size(const HierarchicalOptions& options, const PolicySetup& setup) {
  const FeatureMap map(map_options(options, setup));
  const bool trained = is_trained(options, setup);
  const double units = trained ? static_cast<double>(options.body_units) : 0.0;
  const auto inputs = static_cast<double>(map.inputs());
  const double shared = static_cast<double>(map.shared_size()) + units;
  const double own = static_cast<double>(map.own_size()) + units;
  PolicySize size;
  size.fixed_bytes =
      3000.0 + 8.0 * (shared * shared + 3.0 * own * own) + 4.0 * (inputs + 2.0) * units;
  size.idle_bytes = 4.0 * static_cast<double>(setup.user_feature_count);
  size.event_bytes = 4.0 * inputs + 60.0 + (trained ? 8.0 * shared : 0.0);
  size.user_bytes = 400.0 + size.event_bytes;
  size.numbers = 2.0 * (shared * shared + own * own) + inputs * units;
  size.arm_operations = shared * shared + 2.0 * own * own + inputs * units;
  return size;
}

}  // namespace

Hierarchical::Hierarchical(const HierarchicalOptions& options, const PolicySetup& setup)
    : BasicPolicy(setup),
      options_(options),
      trained_(is_trained(options, setup)),
      alpha_(options.alpha.value_or(
          map_options(options, setup).shared_products ? kAlpha : kAlphaWithoutProducts)),
      shape_{.inputs = setup.inputs},
      block_length_(setup.block_length),
      no_user_features_(user_features_of(options, setup)),
      hierarchy_(
          make_map(options, setup), *setup.threads, options.history_limit,
          {.seed = setup.seed,
           .steps = options.body_steps,
           .passes = options.body_passes,
           .pull = options.pull},
          options.half_life || trained_ ? std::nullopt : std::optional<HalfLife>(HalfLife{})),
      fits_beside_(setup.fits_beside),
      next_fit_(options.first_fit) {
  if (!no_user_features_.empty()) {
    user_features_.assign(setup.user_features.begin(), setup.user_features.end());
  }
  if (!options.memory.value_or(!trained_)) {
    HierarchyScales scales = hierarchy_.scales();
    scales.memory = 0.0;
    hierarchy_.install(scales);
  }
}

Hierarchical::~Hierarchical() {
  if (fit_in_progress()) {
    hierarchy_.fit_in_progress()->cancel();
  }
}

std::span<const float> Hierarchical::features_of(UserId user) const {
  const std::size_t count = no_user_features_.size();
  const std::size_t begin = index(user) * count;
  return begin + count <= user_features_.size() ? std::span(user_features_).subspan(begin, count)
                                                : std::span(no_user_features_);
}

void Hierarchical::check_block(const Features& features, const std::string& what) const {
  if (block_length_ > 0 &&
      (features.values.size() != block_length_ || features.offset % block_length_ != 0)) {
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: expected a block of {} numbers at a multiple of {}, got {} at {}", what,
                    block_length_, block_length_, features.values.size(), features.offset));
  }
}

std::span<const float> Hierarchical::numbers_of(const Features& features,
                                                std::vector<float>& room) const {
  double squares = 0.0;
  for (const float value : features.values) {
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  const double length = std::sqrt(squares);
  const bool is_whole = block_length_ > 0 || features.values.size() == shape_.inputs;
  if (is_whole && length <= kLongestArm) {
    return features.values;
  }
  const double scale = length <= kLongestArm ? 1.0 : kLongestArm / length;
  room.assign(is_whole ? features.values.size() : shape_.inputs, 0.0F);
  float* to = room.data() + (is_whole ? 0 : features.offset);
  for (const float value : features.values) {
    *to++ = static_cast<float>(scale * static_cast<double>(value));
  }
  return room;
}

std::uint64_t Hierarchical::key_of(UserId user, const Features& features) const {
  const std::uint64_t block = block_length_ > 0 ? features.offset / block_length_ : 0;
  return (block << 32) | index(user);
}

std::size_t Hierarchical::find_learner(std::uint64_t key) const {
  const auto found = learners_.find(key);
  return found == learners_.end() ? Hierarchy::kNoLearner : found->second;
}

std::vector<Score> Hierarchical::scores(const Round& round) {
  check(round);
  const double calibration =
      std::max(1.0, (squared_errors_ + kCalibrationPrior) / (recent_rewards_ + kCalibrationPrior));
  const double variance_unit = hierarchy_.prior().noise * calibration;
  std::vector<Score> scores;
  std::vector<std::vector<float>> room(round.arms.size());
  std::vector<std::span<const float>> numbers;
  while (scores.size() < round.arms.size()) {
    // Arms of one learner, one after the other, are predicted together.
    const Arm& first = round.arms[scores.size()];
    const std::uint64_t key = key_of(first.user, first.features);
    numbers.clear();
    for (std::size_t i = scores.size(); i < round.arms.size(); ++i) {
      const Arm& arm = round.arms[i];
      check_block(arm.features, fmt::format("round {}, arm {}", index(round.id), i));
      if (key_of(arm.user, arm.features) != key) {
        break;
      }
      numbers.push_back(numbers_of(arm.features, room[i]));
    }
    hierarchy_.predict(find_learner(key), features_of(first.user), numbers, predictions_);
    for (const Hierarchy::Prediction& said : predictions_) {
      const double deviation = std::sqrt(std::max(0.0, said.variance) * variance_unit);
      scores.emplace_back(Score(said.mean(), {{"shared", said.shared, true},
                                              {"own", said.own, true},
                                              {"memory", said.memory, true},
                                              {"uncertainty", alpha_ * deviation}}));
    }
  }
  return scores;
}

std::optional<std::vector<UserId>> Hierarchical::cluster(const Arm& arm) {
  check_arm(arm, user_count(), shape_);
  check_block(arm.features, "the arm");
  std::vector<float> room;
  const std::span<const float> numbers = numbers_of(arm.features, room);
  const auto estimate = [&](UserId user) {
    hierarchy_.predict(find_learner(key_of(user, arm.features)), features_of(user), {&numbers, 1},
                       predictions_);
    return predictions_.front().mean();
  };
  const double own = estimate(arm.user);
  std::vector<UserId> members;
  for (std::uint32_t i = 0; i < user_count(); ++i) {
    if (std::abs(estimate(UserId{i}) - own) <= options_.gamma) {
      members.push_back(UserId{i});
    }
  }
  return members;
}

double Hierarchical::add(UserId user, const Features& features, float reward) {
  const std::uint64_t key = key_of(user, features);
  const auto [found, is_new] = learners_.try_emplace(key, 0);
  if (is_new) {
    found->second = static_cast<std::uint32_t>(hierarchy_.add_learner(features_of(user)));
    keys_.push_back(key);
  }
  std::vector<float> room;
  const bool was_catching_up = hierarchy_.is_catching_up();
  const double error = hierarchy_.learn(found->second, numbers_of(features, room), reward);
  if (was_catching_up && !hierarchy_.is_catching_up()) {
    faded_until_ = fit_began_;
  }
  return error;
}

void Hierarchical::start(UserId user, const Sample& sample) {
  check(user, sample);
  check_block(sample.features, "the start sample");
  add(user, sample.features, sample.reward);
}

void Hierarchical::learn(RoundId round, const Arm& arm, float reward) {
  check(round, arm, reward);
  check_block(arm.features, fmt::format("round {}", index(round)));
  const double error = add(arm.user, arm.features, reward);
  constexpr double kKept = 1.0 - 1.0 / kCalibrationRounds;
  squared_errors_ = kKept * squared_errors_ + std::min(error, kLargestError);
  recent_rewards_ = kKept * recent_rewards_ + 1.0;
  ++rewards_;
  if (!fits_beside_ && rewards_ >= next_fit_) {
    hierarchy_.fit(next_fit_options());
    schedule_fit();
    faded_until_ = fit_began_;
  }
}

FitOptions Hierarchical::next_fit_options() const {
  const double age = static_cast<double>(rewards_ - faded_until_);
  return {.correlations = options_.correlations,
          .users = options_.fit_users,
          .fading = half_life() > 0.0 ? age / half_life() : 0.0,
          .number = fits_,
          .rewards = static_cast<double>(rewards_)};
}

double Hierarchical::half_life() const {
  return hierarchy_.half_life() ? hierarchy_.half_life()->rewards
                                : options_.half_life.value_or(0.0);
}

// Called when a fit of the present rewards has begun.
void Hierarchical::schedule_fit() {
  ++fits_;
  fit_began_ = rewards_;
  next_fit_ = next_after(rewards_);
}

// The number of rewards at which a fit is due after one that began at `rewards`.
std::uint64_t Hierarchical::next_after(std::uint64_t rewards) const {
  double next = std::ceil(static_cast<double>(rewards) *
                          (trained_ ? options_.body_growth : options_.fit_growth));
  double fading_over = half_life();
  if (hierarchy_.half_life() && hierarchy_.half_life()->for_shorter > kSuspicion) {
    // Look again soon. An earlier half-life may be the shorter one.
    fading_over = fading_over > 0.0 ? std::min(fading_over, static_cast<double>(rewards))
                                    : static_cast<double>(rewards);
  }
  if (fading_over > 0.0) {
    next = std::min(next, static_cast<double>(rewards) + fading_over / kFitsPerHalfLife);
  }
  return std::max(rewards + kFewestBetweenFits, static_cast<std::uint64_t>(next));
}

bool Hierarchical::fit_is_due() const {
  return fits_beside_ && rewards_ >= next_fit_ && !fit_in_progress() &&
         !hierarchy_.is_catching_up();
}

std::shared_ptr<BackgroundFit> Hierarchical::begin_fit() {
  if (!fit_in_progress()) {
    hierarchy_.begin_fit(next_fit_options());
    schedule_fit();
  }
  return hierarchy_.fit_in_progress();
}

void Hierarchical::finish_fit(std::string_view result) {
  if (!fit_in_progress()) {
    throw Error(ErrorKind::kCorrupt, "the result of a fit that was not begun");
  }
  hierarchy_.finish_fit(result);
  if (hierarchy_.half_life()) {
    next_fit_ = next_after(fit_began_);  // the fit has chosen a half-life
  }
  if (!result.empty() && !hierarchy_.is_catching_up()) {
    faded_until_ = fit_began_;
  }
}

bool Hierarchical::forget(UserId user) {
  if (index(user) >= user_count()) {
    throw Error(ErrorKind::kInput,
                fmt::format("user {} is unknown, there are {} users", index(user), user_count()));
  }
  const auto has_fit = [&] { return fit_in_progress() || hierarchy_.is_catching_up(); };
  const bool had_fit = has_fit();
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (static_cast<std::uint32_t>(keys_[i]) == index(user)) {
      hierarchy_.forget(i);
    }
  }
  if (had_fit && !has_fit()) {
    next_fit_ = rewards_;  // begin again, without the user
  }
  return true;
}

std::size_t Hierarchical::memory_bytes() const {
  constexpr std::size_t kMapNode = 3 * sizeof(std::uint64_t);
  return sizeof *this - sizeof hierarchy_ + hierarchy_.memory_bytes() +
         user_features_.capacity() * sizeof(float) + keys_.capacity() * sizeof keys_[0] +
         learners_.size() * kMapNode + learners_.bucket_count() * sizeof(void*);
}

void Hierarchical::save(StateWriter& writer) const {
  writer.write(kStateLayout);
  save_users(writer);
  writer.write_all(keys_);
  writer.write(rewards_);
  writer.write(next_fit_);
  writer.write(fits_);
  writer.write(fit_began_);
  writer.write(faded_until_);
  writer.write(squared_errors_);
  writer.write(recent_rewards_);
  hierarchy_.save(writer);
}

void Hierarchical::load(StateReader& reader) {
  if (reader.read<std::uint64_t>() != kStateLayout) {
    reader.fail("the state was saved by an earlier version of this policy");
  }
  load_users(reader);
  keys_ = reader.read_all<std::uint64_t>(kMostNumbers);
  rewards_ = reader.read<std::uint64_t>();
  next_fit_ = reader.read<std::uint64_t>();
  fits_ = reader.read<std::uint64_t>();
  fit_began_ = reader.read<std::uint64_t>();
  faded_until_ = reader.read<std::uint64_t>();
  if (fit_began_ > rewards_ || faded_until_ > fit_began_) {
    reader.fail("the numbers of rewards do not fit together");
  }
  squared_errors_ = reader.read<double>();
  recent_rewards_ = reader.read<double>();
  hierarchy_.load(reader);
  learners_.clear();
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const bool is_new = learners_.emplace(keys_[i], static_cast<std::uint32_t>(i)).second;
    if (!is_new || static_cast<std::uint32_t>(keys_[i]) >= user_count()) {
      reader.fail("a learner belongs to no user, or to another learner's");
    }
  }
  if (keys_.size() != hierarchy_.learner_count()) {
    reader.fail("the parts of the state do not fit together");
  }
}

PolicyKind hierarchical_policy() {
  return policy_kind<Hierarchical>(
      {.name = "hierarchical",
       .help = "what users share and how each of them differs, by exact Bayesian inference",
       .paper =
           "the idea of Ban, Qi, Wei, Liu, He: Meta Clustering of Neural Bandits, KDD 2024, as "
           "a hierarchical linear Gaussian model with empirical Bayes",
       .values_before = {{"half_life", "0"}}},
      option_table(), hierarchical_size);
}

}  // namespace mcnb
