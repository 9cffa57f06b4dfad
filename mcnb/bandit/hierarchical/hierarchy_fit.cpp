#include "mcnb/bandit/hierarchical/hierarchy_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>
#include <utility>

#include "mcnb/bandit/hierarchical/matrix_state.h"
#include "mcnb/bandit/hierarchical/own_learner.h"
#include "mcnb/bandit/hierarchical/scale_steps.h"
#include "mcnb/base/random.h"

namespace mcnb {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

const StateHeader kFitResult{.kind = "hierarchy-fit", .version = 2};
constexpr std::size_t kLearnersAtOnce = 1024;  // whose sums are in memory together
constexpr std::size_t kEntriesAtOnce = 256;    // whose histories are copied together

// The choice of a half-life. Arms of the learners whose rewards are compared, together:
constexpr std::size_t kComparedArms = 4096;
// Before so many rewards, scales that are still being learned look like drift.
constexpr double kFewestToCompare = 1000.0;
constexpr double kShortestHalfLife = 500.0;
// Logarithms of likelihood ratios. To fade where nothing drifts costs more than to fade late.
constexpr double kEnoughToFade = 10.0;
constexpr double kEnoughToChange = 3.0;

constexpr int kFitSteps = 2;  // each moves the scales and the correlation
constexpr double kMemoryFactor = 3.0;
constexpr int kMemorySteps = 2;  // in one fit

// Sets the correlation so that a learner's own part is pulled to zero: as if the learner had `pull`
// rewards of zero, at arms like those of all learners, for each reward that learners have on
// average.
void pull_to_zero(const FeatureMap& map, const RewardSums& sums, double pull,
                  HierarchyScales& scales) {
  const std::span<const FeatureGroup> groups = map.groups();
  VectorXd deviations(signed_size(map.own_size()));
  for (std::size_t i = 0; i < map.own_size(); ++i) {
    deviations[signed_size(i)] = std::sqrt(scales.own[static_cast<std::size_t>(groups[i])]);
  }
  const double weight = pull / std::max(1.0, static_cast<double>(sums.learner_count()));
  MatrixXd precision = weight * (deviations.asDiagonal() * sums.own_information(scales.memory) *
                                 deviations.asDiagonal());
  precision.diagonal().array() += 1.0;
  const MatrixXd inverse =
      precision.llt().solve(MatrixXd::Identity(precision.rows(), precision.cols()));
  scales.correlation = 0.5 * (inverse + inverse.transpose());
}

// What the shared part expects of an arm from features that are not own ones.
float beyond_own(const FeatureMap& map, const VectorXd& features, const VectorXd& shared) {
  const Index rest = features.size() - signed_size(map.own_size());
  return static_cast<float>(features.tail(rest).dot(shared.tail(rest)));
}

}  // namespace

HierarchyFit::HierarchyFit(std::shared_ptr<const HistoryBook> book, FeatureMap map,
                           HierarchyScales scales, double noise, const FitOptions& options,
                           const BodyTraining& training)
    : book_(std::move(book)),
      map_(std::move(map)),
      start_(std::move(scales)),
      noise_(noise),
      options_(options),
      training_(training),
      learners_(book_->size_at_fit()),
      period_(book_->ended_period()),
      fading_(options.fading),
      half_life_(options.half_life) {
  choose_sample();
}

void HierarchyFit::choose_sample() {
  if (learners_ <= options_.users) {
    for (std::size_t i = 0; i < learners_; ++i) {
      sample_.push_back(i);
    }
    return;
  }
  Rng rng(learners_, Stream::kFitUsers, options_.number);
  for (const std::uint64_t learner : rng.sample_without_replacement(learners_, options_.users)) {
    sample_.push_back(static_cast<std::size_t>(learner));
  }
  std::ranges::sort(sample_);
}

HistoryBook::Entry HierarchyFit::entry(std::size_t learner) const {
  HistoryBook::Entry entry = book_->at_fit(learner);
  if (fading_ > 0.0) {
    entry.history.fade(std::exp2(-fading_));
  }
  return entry;
}

void HierarchyFit::add_learners(std::span<const std::size_t> learners, RewardSums& sums,
                                ThreadPool& threads) const {
  std::vector<HistoryBook::Entry> entries;
  for (std::size_t i = 0; i < learners.size() && !cancelled_; ++i) {
    entries.push_back(entry(learners[i]));
    if (entries.size() == kEntriesAtOnce || i + 1 == learners.size()) {
      sums.add(entries, threads);
      entries.clear();
    }
  }
}

SharedPosterior HierarchyFit::posterior_under(const HierarchyScales& scales,
                                              ThreadPool& threads) const {
  return posterior_of(map_, scales, threads);
}

SharedPosterior HierarchyFit::posterior_of(const FeatureMap& map, const HierarchyScales& scales,
                                           ThreadPool& threads) const {
  const HierarchyPrior prior = prior_of(map, scales, noise_);
  Evidence all(map.shared_size());
  std::vector<std::size_t> batch;
  for (std::size_t begin = 0; begin < learners_ && !cancelled_; begin += kLearnersAtOnce) {
    batch.resize(std::min(kLearnersAtOnce, learners_ - begin));
    std::iota(batch.begin(), batch.end(), begin);
    RewardSums sums(map);
    add_learners(batch, sums, threads);
    all.add(sums.evidence(prior, threads));
  }
  return shared_posterior(all, prior);
}

void HierarchyFit::run() {
  ThreadPool alone(1);
  run(alone);
}

// Trains on the rewards of the sample. The heads start from the exact ones.
std::shared_ptr<const FeatureBody> HierarchyFit::train(ThreadPool& threads) const {
  const HierarchyPrior prior = prior_of(map_, start_, noise_);
  const VectorXd shared = posterior_of(map_, start_, threads).mean;
  const Index own = signed_size(map_.own_size());
  BodyHeads heads{shared.head(own).cast<float>(), {own, signed_size(sample_.size())}};
  std::vector<HistoryBook::Entry> entries;
  for (std::size_t i = 0; i < sample_.size() && !cancelled_; ++i) {
    entries.push_back(entry(sample_[i]));
  }
  threads.parallel_for(entries.size(), 1, [&](std::size_t i, std::size_t) {
    if (cancelled_) {
      return;
    }
    OwnLearner learner;
    const HistoryBook::Entry& one = entries[i];
    ProjectionScratch scratch;
    learner.rebuild(map_, prior, one.history, one.user, scratch);
    heads.own.col(signed_size(i)) =
        learner.mean(map_, prior, one.history, one.user, shared).cast<float>();
  });
  std::vector<BodySample> samples;
  VectorXd features(signed_size(map_.shared_size()));
  for (std::uint32_t i = 0; i < entries.size() && !cancelled_; ++i) {
    const RewardHistory& history = entries[i].history;
    for (std::size_t j = 0; j < history.arm_count(); ++j) {
      const ArmRewards& rewards = history.rewards()[j];
      float target = static_cast<float>(rewards.mean());
      if (map_.user_features() > 0) {
        map_.expand(history.arm(j), entries[i].user, features.data());
        target -= beyond_own(map_, features, shared);
      }
      samples.push_back(
          {history.arm(j), i, static_cast<float>(rewards.weight(start_.memory)), target});
    }
  }
  return train_body(map_, samples, std::move(heads), training_, options_.number, cancelled_);
}

// Learners with rewards of the ended period, in a random order, until they have many arms together.
std::vector<std::size_t> HierarchyFit::compared_learners() const {
  Rng rng(learners_, Stream::kFitUsers, options_.number);
  std::vector<std::size_t> chosen;
  std::size_t arms = 0;
  for (const std::uint64_t i : rng.sample_without_replacement(sample_.size(), sample_.size())) {
    const std::size_t learner = sample_[static_cast<std::size_t>(i)];
    const RewardHistory history = book_->at_fit(learner).history;
    if (!history.has_rewards_of(period_)) {
      continue;
    }
    chosen.push_back(learner);
    arms += history.arm_count();
    if (arms >= kComparedArms) {
      break;
    }
  }
  return chosen;
}

// The logarithm of how likely the rewards of the ended period are, given the rewards before it with
// other weights. They have a noise of their own: that rewards of 0 or 1 become noisier while the
// policy learns to find ones is no drift.
double HierarchyFit::log_predictive(std::span<const std::size_t> learners, double weight,
                                    const HierarchyPrior& prior, ThreadPool& threads) const {
  const auto misfit_with = [&](double since) {
    std::vector<HistoryBook::Entry> entries;
    for (const std::size_t learner : learners) {
      entries.push_back(book_->at_fit(learner));
      entries.back().history = entries.back().history.weighed(period_, weight, since);
    }
    RewardSums sums(map_);
    sums.add(entries, threads);
    return misfit(sums.evidence(prior, threads), prior);
  };
  const Misfit all = misfit_with(1.0);
  const Misfit before = misfit_with(0.0);
  const Misfit since{.squares = std::max(0.0, all.squares - before.squares),
                     .log_determinant = all.log_determinant - before.log_determinant,
                     .rewards = all.rewards - before.rewards};
  return since.log_evidence();
}

// The sums start again from zero when they have fallen below it, so that a late drift is
// noticed as soon as an early one.
void HierarchyFit::choose_half_life(const HierarchyPrior& prior, ThreadPool& threads) {
  const std::vector<std::size_t> learners = compared_learners();
  if (learners.empty() || options_.rewards < kFewestToCompare) {
    return;
  }
  HalfLife& chosen = *half_life_;
  const double present = log_predictive(learners, 1.0, prior, threads);
  const auto add = [&](double& sum, double weight) {
    sum = std::max(0.0, sum + log_predictive(learners, weight, prior, threads) - present);
  };
  add(chosen.for_shorter, 0.5);
  if (chosen.rewards > 0.0) {
    add(chosen.for_longer, 2.0);
  }
  if (chosen.for_shorter > (chosen.rewards > 0.0 ? kEnoughToChange : kEnoughToFade)) {
    const double next = chosen.rewards > 0.0 ? 0.5 * chosen.rewards : options_.rewards;
    chosen = {.rewards = std::max(kShortestHalfLife, next)};
    fading_ += 1.0;  // at once, by what has proved better
  } else if (chosen.for_longer > kEnoughToChange) {
    chosen = {.rewards = chosen.rewards < options_.rewards ? 2.0 * chosen.rewards : 0.0};
  }
}

void HierarchyFit::run(ThreadPool& threads) {
  fading_ = options_.fading;
  half_life_ = options_.half_life;
  HierarchyScales scales = start_;
  const FeatureMap map = map_.body() ? map_.with_body(train(threads)) : map_;
  RewardSums sums(map);
  add_learners(sample_, sums, threads);
  const auto pull = [&] {
    if (map.body()) {
      pull_to_zero(map, sums, training_.pull, scales);
    }
  };
  pull();
  HierarchyPrior prior = prior_of(map, scales, noise_);
  Evidence evidence = sums.evidence(prior, threads);
  const bool any_free =
      std::ranges::any_of(map.groups(), [&](FeatureGroup group) { return !is_fixed(map, group); });
  for (int step = 0; step < kFitSteps && any_free && !cancelled_; ++step) {
    const SharedPosterior shared = shared_posterior(evidence, prior);
    const OwnMoments own = sums.own_moments(prior, shared, threads);
    improve_scales(map, prior, shared, own, scales);
    pull();
    if (options_.correlations && !map.body()) {
      improve_correlation(map, prior, own, scales);
    }
    prior = prior_of(map, scales, noise_);
    evidence = sums.evidence(prior, threads);
  }
  if (scales.memory > 0.0 && !cancelled_) {
    improve_memory(map, sums, scales, evidence, threads);
  }
  const double fading = fading_;
  if (half_life_ && !cancelled_) {
    choose_half_life(prior_of(map, scales, noise_), threads);
  }
  // The evidence of one batch of all learners is what posterior_under would add up again.
  const bool is_all =
      fading_ == fading && sample_.size() == learners_ && learners_ <= kLearnersAtOnce;
  SharedPosterior shared = is_all ? shared_posterior(evidence, prior_of(map, scales, noise_))
                                  : posterior_of(map, scales, threads);
  // Without a finite result the present scales stay.
  const bool is_finite = std::isfinite(shared.noise) && shared.noise > 0.0 &&
                         shared.mean.allFinite() && scales.correlation.allFinite();
  if (!cancelled_ && is_finite) {
    found_ = FittedPosterior{map, std::move(scales), std::move(shared), fading_, half_life_};
  }
}

// The evidence is flat in the memory's variance, which can take the noise's part: only large steps
// show where it rises.
void HierarchyFit::improve_memory(const FeatureMap& map, const RewardSums& sums,
                                  HierarchyScales& scales, Evidence& evidence,
                                  ThreadPool& threads) const {
  HierarchyPrior prior = prior_of(map, scales, noise_);
  double best = misfit(evidence, prior).log_evidence() + log_prior(scales.memory);
  for (const double factor : {kMemoryFactor, 1.0 / kMemoryFactor}) {
    bool moved = false;
    for (int step = 0; step < kMemorySteps && !cancelled_; ++step) {
      prior.memory = clamp_scale(scales.memory * factor);
      Evidence next = sums.evidence(prior, threads);
      const double now = misfit(next, prior).log_evidence() + log_prior(prior.memory);
      if (!(now > best)) {
        break;
      }
      best = now;
      scales.memory = prior.memory;
      evidence = std::move(next);
      moved = true;
    }
    if (moved) {
      return;
    }
  }
}

std::string HierarchyFit::result() const {
  if (!found_) {
    return {};
  }
  std::ostringstream out;
  StateWriter writer(out, "the result of a fit", kFitResult);
  found_->scales.save(writer);
  if (map_.body()) {
    found_->map.body()->save(writer);
  }
  if (found_->half_life) {
    writer.write(found_->fading);
    writer.write(*found_->half_life);
  }
  writer.finish();
  return std::move(out).str();
}

FittedPosterior HierarchyFit::posterior(std::string_view result, ThreadPool& threads) {
  std::istringstream in{std::string(result)};
  StateReader reader(in, "the result of a fit", kFitResult);
  HierarchyScales scales = start_;
  scales.load(reader);
  FeatureMap map = map_;
  if (map.body()) {
    map = map.with_body(std::make_shared<const FeatureBody>(map.body()->load(reader)));
  }
  if (half_life_) {
    fading_ = reader.read<double>();
    half_life_ = reader.read<HalfLife>();
    if (!(fading_ >= 0.0 && fading_ < 1e6) || !half_life_->is_sound()) {
      reader.fail("the half-life of rewards is not a number of rewards");
    }
  }
  reader.finish();
  const auto same_body = [&] { return !map.body() || *map.body() == *found_->map.body(); };
  if (found_ && found_->scales == scales && found_->fading == fading_ && same_body()) {
    FittedPosterior found = std::move(*found_);
    found_.reset();
    return found;
  }
  SharedPosterior shared = posterior_of(map, scales, threads);
  return {std::move(map), std::move(scales), std::move(shared), fading_, half_life_};
}

}  // namespace mcnb
