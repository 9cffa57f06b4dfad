#include "mcnb/bandit/neural/component_regressions.h"

#include <algorithm>

namespace mcnb {
namespace {

constexpr std::size_t kMostIdleStates = 64;  // that can be made again without loss

}  // namespace

void ComponentRegressions::prepare(std::uint32_t component) {
  groups_.resize(std::max(groups_.size(), component + std::size_t{1}));
  Group& group = groups_[component];
  if (!group.state) {
    group.state = samples_of(component).ridge(lambda_);
    idle_.push_back(component);
  }
}

void ComponentRegressions::add(std::uint32_t component, std::span<const float> x, float reward) {
  Group& group = groups_[component];
  group.state->add(x, reward);
  group.learned = true;
}

void ComponentRegressions::clear() { groups_.clear(); }

void ComponentRegressions::rebuild(ThreadPool& threads) {
  idle_.clear();
  for (std::uint32_t component = 0; component < groups_.size(); ++component) {
    if (groups_[component].state && idle_.size() < kMostIdleStates) {
      idle_.push_back(component);
    }
  }
  groups_.assign(groups_.size(), Group{});
  threads.parallel_for(idle_.size(), 1, [&](std::size_t i, std::size_t) {
    groups_[idle_[i]].state = samples_of(idle_[i]).ridge(lambda_);
  });
}

void ComponentRegressions::drop_idle() {
  if (idle_.size() <= kMostIdleStates) {
    return;
  }
  for (const std::uint32_t component : idle_) {
    if (component < groups_.size() && !groups_[component].learned) {
      groups_[component].state.reset();
    }
  }
  idle_.clear();
}

SampleSums ComponentRegressions::samples_of(std::uint32_t component) const {
  SampleSums all(dimension_);
  for (std::uint32_t row = 0; row < users_.size(); ++row) {
    if (graph_.component(known_.user(row)) == component) {
      all.merge(users_[row].samples());
    }
  }
  return all;
}

std::size_t ComponentRegressions::memory_bytes() const {
  std::size_t bytes = groups_.capacity() * sizeof groups_[0];
  for (const Group& group : groups_) {
    bytes += group.state ? group.state->memory_bytes() - sizeof *group.state : 0;
  }
  return bytes;
}

void ComponentRegressions::save(StateWriter& writer) const {
  const auto learned = std::ranges::count_if(groups_, &Group::learned);
  writer.write(static_cast<std::uint64_t>(learned));
  for (std::uint32_t component = 0; component < groups_.size(); ++component) {
    if (groups_[component].learned) {
      writer.write(component);
      groups_[component].state->save(writer);
    }
  }
}

void ComponentRegressions::load(StateReader& reader) {
  groups_.clear();
  idle_.clear();
  std::vector<std::uint64_t> samples(graph_.component_count() + 1);
  for (std::uint32_t row = 0; row < users_.size(); ++row) {
    const std::uint32_t component = graph_.component(known_.user(row));
    samples.resize(std::max(samples.size(), component + std::size_t{1}));
    samples[component] += users_[row].samples().count();
  }
  const auto learned = reader.read<std::uint64_t>();
  for (std::uint64_t i = 0; i < learned; ++i) {
    const auto component = reader.read<std::uint32_t>();
    if (component >= samples.size() || component < groups_.size()) {
      reader.fail("a regression belongs to no component");
    }
    groups_.resize(component + std::size_t{1});
    groups_[component] = {RidgeState::load(reader), true};
    const RidgeState& state = *groups_[component].state;
    if (state.dimension() != dimension_ || state.lambda() != lambda_ ||
        state.sample_count() != samples[component]) {
      reader.fail("a regression is not that of its users");
    }
  }
}

}  // namespace mcnb
