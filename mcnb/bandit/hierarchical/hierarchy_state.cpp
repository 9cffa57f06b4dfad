// Saving and loading a Hierarchy, also in the middle of a fit.

#include <utility>

#include "mcnb/bandit/hierarchical/hierarchy.h"
#include "mcnb/bandit/hierarchical/matrix_state.h"
#include "mcnb/numeric/network.h"

namespace mcnb {

void Hierarchy::save_shared(StateWriter& writer, const Shared& shared) const {
  shared.scales.save(writer);
  writer.write(shared.prior.noise);
  write_matrix(writer, shared.mean);
  shared.covariance.save(writer);
}

void Hierarchy::load_shared(StateReader& reader, Shared& shared) const {
  shared.scales.load(reader);
  const auto noise = reader.read<double>();
  if (!(noise > 0.0 && noise < 1e300)) {
    reader.fail("the noise's variance is not a variance");
  }
  shared.prior = prior_of(map_, shared.scales, noise);
  read_matrix(reader, shared.mean);
  shared.covariance.load(reader);
}

void Hierarchy::save(StateWriter& writer) const {
  save_shared(writer, now_);
  book_->save(writer);
  for (const Learner& learner : learners_) {
    // A learner that has to be rebuilt anyway is saved without its matrices.
    const bool is_fresh = learner.epoch == epoch_ && !learner.only_predicted;
    writer.write(static_cast<std::uint8_t>(is_fresh));
    if (is_fresh) {
      learner.own.save(writer);
    }
  }
  save_fit(writer);
}

void Hierarchy::load(StateReader& reader) {
  fit_.reset();
  next_.reset();
  recent_.clear();
  faded_.clear();
  load_shared(reader, now_);
  book_ = std::make_shared<HistoryBook>(map_.user_features());
  book_->load(reader, map_);
  epoch_ = 1;
  learners_.clear();
  for (std::size_t i = 0; i < book_->size(); ++i) {
    Learner& learner = learners_.emplace_back();
    if (reader.read<std::uint8_t>() != 0) {
      learner.epoch = epoch_;
      learner.own.load(reader, map_, book_->history(i).arm_count());
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
    return;
  }
  save_shared(writer, next_->shared);
  writer.write(next_->fading);
  writer.write(static_cast<std::uint64_t>(next_->learned));
  writer.write(static_cast<std::uint64_t>(next_->learners.size()));
  for (const auto& [index, learner] : next_->learners) {
    writer.write(index);
    learner.history->save(writer);
    learner.own.save(writer);
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
    recent.arm = reader.read_all<float>(map_.inputs());
    if (recent.learner >= book_->size() || recent.arm.size() != map_.inputs() ||
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
    fit_ = std::make_shared<HierarchyFit>(book_, map_, now_.scales, now_.prior.noise, options);
    return;
  }
  next_ = Next{now_};
  load_shared(reader, next_->shared);
  next_->fading = reader.read<double>();
  next_->learned = reader.read<std::uint64_t>();
  const auto learners = reader.read<std::uint64_t>();
  for (std::uint64_t i = 0; i < learners; ++i) {
    NextLearner& learner = next_->learners[reader.read<std::uint32_t>()];
    learner.history->load(reader, map_);
    learner.own.load(reader, map_, learner.history->arm_count());
  }
  if (next_->learned > recent_.size() || next_->learners.size() != learners ||
      (learners > 0 && next_->learners.rbegin()->first >= book_->size())) {
    reader.fail("the state after a fit does not fit the learners");
  }
}

}  // namespace mcnb
