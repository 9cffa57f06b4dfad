#include "mcnb/bandit/history.h"

#include <algorithm>
#include <cmath>

#include "mcnb/base/check.h"
#include "mcnb/base/error.h"
#include "mcnb/base/random.h"

namespace mcnb {
namespace {

constexpr std::size_t kFewestNewSlots = 16;

}  // namespace

void Histories::add_users(std::size_t count) {
  references_.resize(references_.size() + count);
  if (limit_ > 0) {
    joined_.resize(references_.size());
  }
}

EventId Histories::store(const Sample& sample) {
  const std::span<const float> features = sample.features.values;
  if (features.size() > stride_) {
    // The block is wider than any so far: every slot gets more room.
    std::vector<float> wider(slots_.size() * features.size());
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      std::copy_n(values_.data() + i * stride_, slots_[i].count,
                  wider.data() + i * features.size());
    }
    values_ = std::move(wider);
    stride_ = features.size();
  }
  std::size_t slot = slots_.size();
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
  } else {
    if (slot >= 0xffffffffU) {
      throw Error(ErrorKind::kLimit, "histories: no more than 2^32 - 1 events can be held");
    }
    if (slots_.size() == slots_.capacity()) {
      // Events take most of the memory of users with many rewards: twice the room would be too
      // much.
      const std::size_t room = slots_.size() + std::max(slots_.size() / 8, kFewestNewSlots);
      slots_.reserve(room);
      values_.reserve(room * stride_);
    }
    slots_.emplace_back();
    values_.resize(values_.size() + stride_);
  }
  std::ranges::copy(features, values_.begin() + static_cast<std::ptrdiff_t>(slot * stride_));
  slots_[slot] = {sample.features.offset, static_cast<std::uint32_t>(features.size()),
                  sample.reward, 0};
  return EventId{static_cast<std::uint32_t>(slot)};
}

void Histories::join(UserId user, std::uint32_t event) {
  std::vector<std::uint32_t>& history = references_[index(user)];
  if (limit_ > 0) {
    const std::uint64_t before = joined_[index(user)]++;
    if (before >= limit_) {
      const std::uint64_t position =
          Rng(seed_, Stream::kReservoir, before, static_cast<std::uint32_t>(user))
              .below(before + 1);
      if (position < limit_) {
        release(history[static_cast<std::size_t>(position)]);
        history[static_cast<std::size_t>(position)] = event;
        ++slots_[event].holders;
      }
      return;
    }
  }
  if (history.size() == history.capacity()) {
    const std::size_t wanted = history.size() + std::max<std::size_t>(history.size() / 2, 1);
    held_references_ -= history.capacity();
    history.reserve(limit_ > 0 ? std::min(wanted, limit_) : wanted);
    held_references_ += history.capacity();
  }
  history.push_back(event);
  ++slots_[event].holders;
}

void Histories::release(std::uint32_t event) {
  if (--slots_[event].holders == 0) {
    // The values are erased: they may be about a user who asks to be forgotten.
    std::fill_n(values_.begin() + static_cast<std::ptrdiff_t>(event * stride_), stride_, 0.0F);
    slots_[event] = {};
    free_.push_back(event);
  }
}

void Histories::assign(std::span<const Sample> events,
                       std::span<const std::vector<std::uint32_t>> references) {
  check(limit_ == 0, "histories without a limit are replaced");
  *this = Histories(seed_, 0);
  add_users(references.size());
  for (const Sample& event : events) {
    store(event);
  }
  for (std::size_t user = 0; user < references.size(); ++user) {
    for (const std::uint32_t event : references[user]) {
      join(UserId{static_cast<std::uint32_t>(user)}, event);
    }
  }
  for (std::size_t event = slots_.size(); event-- > 0;) {
    if (slots_[event].holders == 0) {
      ++slots_[event].holders;
      release(static_cast<std::uint32_t>(event));
    }
  }
}

void Histories::forget(UserId user) {
  for (const std::uint32_t event : references_[index(user)]) {
    release(event);
  }
  held_references_ -= references_[index(user)].capacity();
  references_[index(user)] = std::vector<std::uint32_t>();  // frees it, unlike = {}
  if (limit_ > 0) {
    joined_[index(user)] = 0;
  }
}

EventId Histories::add(std::span<const UserId> users, const Sample& sample) {
  const auto event = static_cast<std::uint32_t>(store(sample));
  ++slots_[event].holders;  // so that no reservoir releases it before all have decided
  for (const UserId user : users) {
    join(user, event);
  }
  release(event);
  return EventId{event};
}

std::vector<Sample> Histories::samples_of(UserId user) const {
  std::vector<Sample> samples;
  samples.reserve(size(user));
  for (const std::uint32_t event : events(user)) {
    samples.push_back(sample(EventId{event}));
  }
  return samples;
}

std::vector<Sample> Histories::all_samples() const {
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].count > 0) {
      samples.push_back(sample(EventId{static_cast<std::uint32_t>(i)}));
    }
  }
  return samples;
}

std::size_t Histories::memory_bytes_with(std::size_t held_references) const {
  return references_.capacity() * sizeof references_[0] + joined_.capacity() * sizeof joined_[0] +
         slots_.capacity() * sizeof slots_[0] + values_.capacity() * sizeof values_[0] +
         free_.capacity() * sizeof free_[0] + held_references * sizeof references_[0][0];
}

std::size_t Histories::memory_bytes() const { return memory_bytes_with(held_references_); }

std::size_t Histories::count_memory_bytes() const {
  std::size_t held = 0;
  for (const auto& history : references_) {
    held += history.capacity();
  }
  return memory_bytes_with(held);
}

void Histories::save(StateWriter& writer) const {
  writer.write(static_cast<std::uint64_t>(stride_));
  writer.write_all(slots_);
  writer.write_all(values_);
  writer.write_all(free_);
  writer.write_all(joined_);
  writer.write(static_cast<std::uint64_t>(references_.size()));
  for (const auto& history : references_) {
    writer.write_all(history);
  }
}

void Histories::load(StateReader& reader, const NetworkShape& shape) {
  constexpr std::uint64_t kMost = 0xffffffffU;
  stride_ = static_cast<std::size_t>(reader.read<std::uint64_t>());
  slots_ = reader.read_all<Slot>(kMost);
  if (stride_ > shape.inputs) {
    reader.fail("an event has more features than the networks have inputs");
  }
  values_ = reader.read_all<float>(slots_.size() * stride_);
  free_ = reader.read_all<std::uint32_t>(slots_.size());
  joined_ = reader.read_all<std::uint64_t>(kMost);
  const auto users = reader.read<std::uint64_t>();
  if (users > kMost || values_.size() != slots_.size() * stride_ ||
      joined_.size() != (limit_ > 0 ? users : 0)) {
    reader.fail("the histories do not fit together");
  }
  references_.clear();
  held_references_ = 0;
  std::vector<std::uint32_t> holders(slots_.size());
  for (std::uint64_t user = 0; user < users; ++user) {
    references_.push_back(reader.read_all<std::uint32_t>(kMost));
    held_references_ += references_.back().capacity();
    for (const std::uint32_t event : references_.back()) {
      if (event >= slots_.size() || slots_[event].count == 0) {
        reader.fail("a history refers to an event that does not exist");
      }
      ++holders[event];
    }
    const std::size_t held = references_.back().size();
    if (limit_ > 0 && held != std::min<std::uint64_t>(joined_[references_.size() - 1], limit_)) {
      reader.fail("a bounded history is not as long as what joined it");
    }
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    const bool fits = slot.count <= stride_ && slot.offset <= shape.inputs - slot.count;
    if (!fits || slot.holders != holders[i] || !std::isfinite(slot.reward)) {
      reader.fail("an event is not one that could have been stored");
    }
  }
  std::vector<bool> is_free(slots_.size());
  for (const std::uint32_t slot : free_) {
    if (slot >= slots_.size() || slots_[slot].count != 0 || is_free[slot]) {
      reader.fail("the list of free slots does not fit the events");
    }
    is_free[slot] = true;
  }
  if (std::ranges::any_of(values_, [](float value) { return !std::isfinite(value); })) {
    reader.fail("an event has features that are not finite");
  }
}

}  // namespace mcnb
