#include "mcnb/serve/model/waiting_events.h"

#include <algorithm>
#include <cmath>

#include "mcnb/base/check.h"

namespace mcnb {
namespace {

constexpr std::uint64_t kMost = 1'000'000'000;
constexpr std::size_t kNodeBytes = 32;  // a map adds to each value

}  // namespace

WaitingEvent* WaitingEvents::find(std::uint64_t key) { return waiting_.find(key); }

const EndedEvent* WaitingEvents::find_ended(std::uint64_t key) const { return ended_.find(key); }

const WaitingEvent* WaitingEvents::waiting_at(const Turn& turn) const {
  const WaitingEvent* const found = waiting_.find(turn.key);
  return found == nullptr || found->log_position != turn.log_position ? nullptr : found;
}

void WaitingEvents::skip_ended() {
  while (!order_.empty() && waiting_at(order_.front()) == nullptr) {
    order_.pop_front();
  }
}

const WaitingEvent* WaitingEvents::oldest() {
  skip_ended();
  return order_.empty() ? nullptr : waiting_at(order_.front());
}

std::size_t WaitingEvents::count_until(std::int64_t time, std::size_t limit) {
  skip_ended();
  std::size_t count = 0;
  for (const Turn& turn : order_) {
    const WaitingEvent* event = waiting_at(turn);
    if (event == nullptr) {
      continue;
    }
    if (count >= limit || event->time > time) {
      break;
    }
    ++count;
  }
  return count;
}

void WaitingEvents::add(WaitingEvent event) {
  const Turn turn{event.key, event.log_position};
  float_count_ += event.features.size();
  check(!ended_.contains(turn.key) && waiting_.emplace(turn.key, std::move(event)),
        "an event is decided once");
  order_.push_back(turn);
  // Drops the keys of ended events once they are more than half.
  if (order_.size() > 2 * waiting_.size() + 1024) {
    std::erase_if(order_, [&](const Turn& other) { return waiting_at(other) == nullptr; });
  }
}

void WaitingEvents::remember(std::uint64_t key, EndedEvent ended) {
  ended_.emplace(key, std::move(ended));
  ended_order_.push_back(key);
  if (ended_order_.size() > remembered_) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
}

WaitingEvent WaitingEvents::end(std::uint64_t key, std::uint64_t reward_id) {
  WaitingEvent* const found = waiting_.find(key);
  check(found != nullptr, "an event that ends was waiting");
  WaitingEvent event = std::move(*found);
  waiting_.erase(key);
  float_count_ -= event.features.size();
  EndedEvent ended{event.log_position, event.user, reward_id, std::move(event.reward_ids)};
  std::erase_if(ended.other_ids, [&](std::uint64_t id) { return id == 0 || id == reward_id; });
  ended.other_ids.shrink_to_fit();
  remember(key, std::move(ended));
  return event;
}

WaitingEvent WaitingEvents::end_oldest() {
  skip_ended();
  check(!order_.empty(), "there is an event to end");
  const std::uint64_t key = order_.front().key;
  order_.pop_front();
  return end(key, 0);
}

void WaitingEvents::note_late(std::uint64_t key, std::uint64_t reward_id) {
  EndedEvent* const found = ended_.find(key);
  if (found != nullptr && reward_id != 0 && found->other_ids.size() < kMostRewards) {
    found->other_ids.push_back(reward_id);
  }
}

void WaitingEvents::forget(std::uint64_t user) {
  waiting_.erase_if([&](const WaitingEvent& event) {
    const bool gone = event.user == user;
    float_count_ -= gone ? event.features.size() : 0;
    return gone;
  });
  std::erase_if(order_, [&](const Turn& turn) { return waiting_at(turn) == nullptr; });
  ended_.erase_if([&](const EndedEvent& event) { return event.user == user; });
  std::erase_if(ended_order_, [&](std::uint64_t key) { return !ended_.contains(key); });
}

std::size_t WaitingEvents::memory_bytes() const {
  return waiting_.size() * (sizeof(WaitingEvent) + kNodeBytes) + float_count_ * sizeof(float) +
         ended_.size() * (sizeof(EndedEvent) + kNodeBytes) + order_.size() * sizeof(Turn) +
         ended_order_.size() * sizeof(std::uint64_t);
}

void WaitingEvents::save(StateWriter& writer) const {
  writer.write(static_cast<std::uint64_t>(waiting_.size()));
  for (const Turn& turn : order_) {
    const WaitingEvent* waiting = waiting_at(turn);
    if (waiting == nullptr) {
      continue;
    }
    const WaitingEvent& event = *waiting;
    writer.write(event.key);
    writer.write(event.log_position);
    writer.write(event.user);
    writer.write(event.time);
    writer.write(event.learner);
    writer.write(event.arm);
    writer.write(static_cast<std::uint8_t>(event.active));
    writer.write(static_cast<std::uint8_t>(event.learns));
    writer.write(event.weight);
    writer.write_all(event.features);
    writer.write_all(event.rewards);
    writer.write_all(event.reward_ids);
  }
  writer.write(static_cast<std::uint64_t>(ended_order_.size()));
  for (const std::uint64_t key : ended_order_) {
    const EndedEvent& ended = *ended_.find(key);
    writer.write(key);
    writer.write(ended.log_position);
    writer.write(ended.user);
    writer.write(ended.reward_id);
    writer.write_all(ended.other_ids);
  }
}

void WaitingEvents::load(StateReader& reader, std::size_t dimension, std::size_t learners,
                         bool has_weights) {
  *this = WaitingEvents(remembered_);
  const auto count = reader.read<std::uint64_t>();
  std::int64_t last_time = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    WaitingEvent event;
    event.key = reader.read<std::uint64_t>();
    event.log_position = reader.read<std::uint64_t>();
    event.user = reader.read<std::uint64_t>();
    event.time = reader.read<std::int64_t>();
    event.learner = reader.read<std::uint32_t>();
    event.arm = reader.read<std::uint32_t>();
    event.active = reader.read<std::uint8_t>() != 0;
    event.learns = reader.read<std::uint8_t>() != 0;
    event.weight = has_weights ? reader.read<float>() : 1.0F;
    event.features = reader.read_all<float>(dimension);
    event.rewards = reader.read_all<float>(kMostRewards);
    event.reward_ids = reader.read_all<std::uint64_t>(kMostRewards);
    const bool sound =
        event.features.size() == dimension && event.learner < learners &&
        event.arm < kMostActions && event.rewards.size() == event.reward_ids.size() &&
        event.time >= last_time && event.weight >= 0.0F && std::isfinite(event.weight) &&
        !waiting_.contains(event.key) &&
        std::ranges::all_of(event.features, [](float x) { return std::isfinite(x); }) &&
        std::ranges::all_of(event.rewards, [](float r) { return r >= 0.0F && r <= 1.0F; });
    if (!sound) {
      reader.fail("a waiting event has impossible values");
    }
    last_time = event.time;
    add(std::move(event));
  }
  const auto ended = reader.read<std::uint64_t>();
  if (ended > std::min<std::uint64_t>(remembered_, kMost)) {
    reader.fail("more ended events than are remembered");
  }
  for (std::uint64_t i = 0; i < ended; ++i) {
    const auto key = reader.read<std::uint64_t>();
    EndedEvent event;
    event.log_position = reader.read<std::uint64_t>();
    event.user = reader.read<std::uint64_t>();
    event.reward_id = reader.read<std::uint64_t>();
    event.other_ids = reader.read_all<std::uint64_t>(kMostRewards);
    if (waiting_.contains(key) || ended_.contains(key)) {
      reader.fail("an event has ended twice");
    }
    remember(key, std::move(event));
  }
}

}  // namespace mcnb
