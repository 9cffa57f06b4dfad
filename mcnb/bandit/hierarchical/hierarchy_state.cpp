// Saving and loading a Hierarchy, also in the middle of a fit.

#include <utility>

#include "mcnb/bandit/hierarchical/hierarchy.h"
#include "mcnb/bandit/hierarchical/matrix_state.h"
#include "mcnb/numeric/network.h"

namespace mcnb {

void Hierarchy::save_shared(StateWriter& writer, const Shared& shared) const {
  if (shared.map.body()) {
    shared.map.body()->save(writer);
  }
  shared.scales.save(writer);
  writer.write(shared.prior.noise);
  write_matrix(writer, shared.mean);
  shared.covariance.save(writer);
}

void Hierarchy::load_shared(StateReader& reader, Shared& shared) const {
  if (const auto& body = shared.map.body()) {
    shared.map = shared.map.with_body(std::make_shared<const FeatureBody>(body->load(reader)));
  }
  shared.scales.load(reader);
  const auto noise = reader.read<double>();
  if (!(noise > 0.0 && noise < 1e300)) {
    reader.fail("the noise's variance is not a variance");
  }
  shared.prior = prior_of(shared.map, shared.scales, noise);
  read_matrix(reader, shared.mean);
  shared.covariance.load(reader);
}

void Hierarchy::save(StateWriter& writer) const {
  save_shared(writer, now_);
  if (half_life_) {
    writer.write(*half_life_);
  }
  book_->save(writer);
  for (std::size_t i = 0; i < learners_.size(); ++i) {
    const Learner& learner = learners_[i];
    // A learner that has to be rebuilt anyway is saved without its matrices.
    const bool is_fresh = learner.epoch == epoch_ && !learner.only_predicted;
    writer.write(static_cast<std::uint8_t>(is_fresh));
    if (is_fresh) {
      learner.own.save(writer, now_.map, book_->user(i));
    }
  }
  save_fit(writer);
}

void Hierarchy::load(StateReader& reader) {
  fit_.reset();
  next_.reset();
  recent_.clear();
  faded_.clear();
  bytes_ = {};
  load_shared(reader, now_);
  if (half_life_) {
    half_life_ = reader.read<HalfLife>();
    if (!half_life_->is_sound()) {
      reader.fail("the half-life of rewards is not a number of rewards");
    }
  }
  book_ = std::make_shared<HistoryBook>(now_.map.user_features(), half_life_.has_value());
  book_->load(reader, now_.map);
  epoch_ = 1;
  learners_.clear();
  for (std::size_t i = 0; i < book_->size(); ++i) {
    Learner& learner = learners_.emplace_back();
    if (reader.read<std::uint8_t>() != 0) {
      learner.epoch = epoch_;
      learner.own.load(reader, now_.map, book_->history(i), book_->user(i));
      bytes_.own += learner.own.memory_bytes();
    }
  }
  load_fit(reader);
}

void Hierarchy::save_fit(StateWriter& writer) const {
  writer.write(static_cast<std::uint8_t>(fit_ ? 1 : next_ ? 2 : 0));
  if (!fit_ && !next_) {
    return;
  }
  writer.write(static_cast<std::uint64_t>(recent_.size()));
  for (const RecentReward& recent : recent_) {
    writer.write(recent.learner);
    writer.write(recent.reward);
    writer.write_all(recent.arm);
  }
  if (fit_) {
    const FitOptions& options = fit_->options();
    writer.write(static_cast<std::uint8_t>(options.correlations));
    writer.write(static_cast<std::uint64_t>(options.users));
    writer.write(options.fading);
    writer.write(options.number);
    if (half_life_) {
      writer.write(options.rewards);
    }
    return;
  }
  save_shared(writer, next_->shared);
  writer.write(next_->fading);
  writer.write(static_cast<std::uint64_t>(next_->learned));
  writer.write(static_cast<std::uint64_t>(next_->learners.size()));
  for (const auto& [index, learner] : next_->learners) {
    writer.write(index);
    learner.history->save(writer);
    learner.own.save(writer, next_->shared.map, book_->user(index));
  }
}

void Hierarchy::load_fit(StateReader& reader) {
  const auto kind = reader.read<std::uint8_t>();
  if (kind == 0) {
    return;
  }
  const auto count = reader.read<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    RecentReward& recent = recent_.emplace_back();
    recent.learner = reader.read<std::uint32_t>();
    recent.reward = reader.read<float>();
    recent.arm = reader.read_all<float>(now_.map.inputs());
    if (recent.learner >= book_->size() || recent.arm.size() != now_.map.inputs() ||
        !all_finite(recent.arm)) {
      reader.fail("a reward that came during a fit does not fit the learners");
    }
  }
  if (kind == 1) {
    FitOptions options;
    options.correlations = reader.read<std::uint8_t>() != 0;
    options.users = reader.read<std::uint64_t>();
    options.fading = reader.read<double>();
    options.number = reader.read<std::uint64_t>();
    if (half_life_) {
      options.half_life = half_life_;
      options.rewards = reader.read<double>();
    }
    fit_ = std::make_shared<HierarchyFit>(book_, now_.map, now_.scales, now_.prior.noise, options,
                                          training_);
    return;
  }
  next_ = Next{now_};
  load_shared(reader, next_->shared);
  next_->fading = reader.read<double>();
  next_->learned = reader.read<std::uint64_t>();
  const auto learners = reader.read<std::uint64_t>();
  for (std::uint64_t i = 0; i < learners; ++i) {
    const auto index = reader.read<std::uint32_t>();
    if (index >= book_->size()) {
      reader.fail("the state after a fit belongs to no learner");
    }
    NextLearner& learner = next_->learners[index];
    const FeatureMap& map = next_->shared.map;
    learner.history->load(reader, map);
    learner.own.load(reader, map, *learner.history, book_->user(index));
    bytes_.next += learner.memory_bytes();
  }
  if (next_->learned > recent_.size() || next_->learners.size() != learners) {
    reader.fail("the state after a fit does not fit the learners");
  }
}

}  // namespace mcnb
