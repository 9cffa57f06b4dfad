#pragma once

#include "mcnb/bandit/mcnb/device/device_rounds.h"

// How everything that the rounds hold goes to the CPU and comes back.
namespace mcnb::device {

template <class Executor>
Contents DeviceRounds<Executor>::download() {
  executor_.wait();
  const std::size_t count = sizes_.shape.parameter_count();
  Contents all;
  all.theta.resize(count);
  executor_.to_host(all.theta.data(), state_.theta, count * sizeof(float));
  all.trained.resize(state_.users);
  executor_.to_host(all.trained.data(), state_.trained, all.trained.size() * 4);
  all.learners.resize(state_.users * count);
  executor_.rows_to_host(all.learners.data(), state_.learners, count, state_.stride, state_.users);
  const std::size_t record = std::size_t{state_.inputs} + 1;
  all.events.resize(events_ * record);
  executor_.rows_to_host(all.events.data(), state_.events, record, state_.event_stride, events_);
  std::vector<History> histories(state_.users);
  executor_.to_host(histories.data(), state_.histories, histories.size() * sizeof(History));
  std::uint64_t used = 0;
  executor_.to_host(&used, state_.refs_used, sizeof used);
  std::vector<std::uint32_t> refs(used);
  executor_.to_host(refs.data(), state_.refs, used * 4);
  for (std::uint32_t& reference : refs) {
    reference &= ~kSharedEvent;
  }
  for (const History& history : histories) {
    const std::uint32_t* first = refs.data() + history.begin;
    all.references.emplace_back(first, first + history.size);
  }
  return all;
}

template <class Executor>
void DeviceRounds<Executor>::upload(const Contents& contents) {
  executor_.wait();
  const std::size_t count = sizes_.shape.parameter_count();
  set_users(contents.trained.size());
  executor_.to_device(state_.theta, contents.theta.data(), count * sizeof(float));
  executor_.to_device(state_.trained, contents.trained.data(), contents.trained.size() * 4);
  executor_.rows_to_device(state_.learners, contents.learners.data(), count, state_.stride,
                           state_.users);
  const std::size_t record = std::size_t{state_.inputs} + 1;
  events_ = 0;
  make_events(contents.events.size() / record);
  events_ = contents.events.size() / record;
  executor_.rows_to_device(state_.events, contents.events.data(), record, state_.event_stride,
                           events_);
  std::vector<History> histories;
  std::vector<std::uint32_t> refs;
  std::vector<std::uint32_t> has_history(state_.words);
  for (const std::vector<std::uint32_t>& events : contents.references) {
    const auto user = static_cast<std::uint32_t>(histories.size());
    has_history[user / 32] |= events.empty() ? 0U : 1U << user % 32;
    const auto size = static_cast<std::uint32_t>(events.size());
    histories.push_back({refs.size(), size, size});
    refs.insert(refs.end(), events.begin(), events.end());
  }
  std::vector<std::uint32_t> uses(events_);
  for (const std::uint32_t event : refs) {
    ++uses[event];
  }
  for (std::uint32_t& reference : refs) {
    reference |= uses[reference] > 1 ? kSharedEvent : 0;
  }
  const std::uint64_t used = refs.size();
  make_refs(used);
  executor_.to_device(state_.histories, histories.data(), histories.size() * sizeof(History));
  executor_.to_device(state_.refs, refs.data(), used * 4);
  executor_.to_device(state_.refs_used, &used, sizeof used);
  executor_.to_device(state_.has_history, has_history.data(), has_history.size() * 4);
}

}  // namespace mcnb::device
