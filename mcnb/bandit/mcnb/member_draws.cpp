#include "mcnb/bandit/mcnb/member_draws.h"

#include <algorithm>
#include <utility>

#include "mcnb/base/random.h"
#include "mcnb/numeric/kernels.h"

namespace mcnb {
namespace {

constexpr std::size_t kPrefetchDistance = 8;  // members

}  // namespace

MemberDraws::MemberDraws(const McnbOptions& options, std::uint64_t seed)
    : seed_(seed),
      meta_draw_(options.meta_draw),
      most_participants_(static_cast<std::size_t>(options.meta_samples)),
      steps_(static_cast<std::size_t>(options.meta_steps)) {}

std::span<const std::vector<Draw>> MemberDraws::draw(const Histories& histories,
                                                     const FoundCluster& cluster, RoundId round,
                                                     ArmIndex arm) {
  event_weights_.resize(histories.event_slots());
  members_.clear();
  for (const UserId member : cluster.members) {
    if (histories.size(member) > 0) {
      members_.push_back(member);
    }
  }
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    const auto step_and_arm = static_cast<std::uint32_t>(step << 16 | index(arm));
    const StepAddress address{round, step_and_arm};
    if (cluster.is_enough) {
      draw_step(histories,
                std::span(members_).subspan(step * most_participants_, most_participants_), address,
                steps_[step]);
    } else {
      draw_step(histories, select_participants(address), address, steps_[step]);
      restore_member_order();
    }
  }
  return steps_;
}

// Members that draw the same event share it: their weights add up.
void MemberDraws::draw_step(const Histories& histories, std::span<const UserId> participants,
                            StepAddress address, std::vector<Draw>& draws) {
  draws.clear();
  if (meta_draw_ == MetaDraw::kOne) {
    add_one_event_each(histories, participants, address, draws);
  } else {
    add_whole_histories(histories, participants, draws);
  }
  for (Draw& draw : draws) {
    float& sum = event_weights_[index(draw.event)];
    draw.weight = sum / static_cast<float>(participants.size());
    sum = 0.0F;
  }
}

// Swaps the members that take part to the front, a uniform sample without replacement, and returns
// them.
std::span<const UserId> MemberDraws::select_participants(StepAddress address) {
  swaps_.clear();
  const std::size_t count = members_.size();
  if (most_participants_ == 0 || most_participants_ >= count) {
    return members_;
  }
  Rng rng(seed_, Stream::kMetaMembers, index(address.round), address.step_and_arm);
  for (std::size_t i = 0; i < most_participants_; ++i) {
    swaps_.push_back(i + static_cast<std::size_t>(rng.below(count - i)));
    std::swap(members_[i], members_[swaps_[i]]);
  }
  return std::span(members_).first(most_participants_);
}

// Undoes the swaps, because a step must not depend on the steps before it.
void MemberDraws::restore_member_order() {
  for (std::size_t i = swaps_.size(); i-- > 0;) {
    std::swap(members_[i], members_[swaps_[i]]);
  }
}

void MemberDraws::add_one_event_each(const Histories& histories,
                                     std::span<const UserId> participants, StepAddress address,
                                     std::vector<Draw>& draws) {
  const std::size_t count = participants.size();
  const RngFamily family(Rng(seed_, Stream::kMetaDraw, index(address.round), address.step_and_arm));
  numbers_.clear();
  for (const UserId member : participants) {
    numbers_.push_back(static_cast<std::uint32_t>(member));
  }
  words_.resize(count);
  kernels::first_words(family, numbers_, words_.data());
  for (std::size_t i = 0; i < count; ++i) {
    const UserId member = participants[i];
    histories.fetch(participants[std::min(i + kPrefetchDistance, count - 1)]);
    const std::vector<std::uint32_t>& history = histories.events(member);
    // Equals family.member(member).below(size); nearly always the first word is enough for it.
    const std::uint64_t product = std::uint64_t{words_[i]} * history.size();
    const std::uint64_t drawn = static_cast<std::uint32_t>(product) >= history.size()
                                    ? product >> 32
                                    : family.member(index(member)).below(history.size());
    add(EventId{history[static_cast<std::size_t>(drawn)]}, 1.0F, draws);
  }
}

void MemberDraws::add_whole_histories(const Histories& histories,
                                      std::span<const UserId> participants,
                                      std::vector<Draw>& draws) {
  const std::size_t count = participants.size();
  for (std::size_t i = 0; i < count; ++i) {
    histories.fetch(participants[std::min(i + kPrefetchDistance, count - 1)]);
    const std::vector<std::uint32_t>& history = histories.events(participants[i]);
    for (const std::uint32_t event : history) {
      add(EventId{event}, 1.0F / static_cast<float>(history.size()), draws);
    }
  }
}

void MemberDraws::add(EventId event, float weight, std::vector<Draw>& draws) {
  float& sum = event_weights_[index(event)];
  if (sum == 0.0F) {
    draws.push_back({event, 0.0F});
  }
  sum += weight;
}

std::size_t MemberDraws::memory_bytes() const {
  std::size_t bytes = members_.capacity() * sizeof(UserId) +
                      swaps_.capacity() * sizeof(std::size_t) +
                      (numbers_.capacity() + words_.capacity()) * sizeof(std::uint32_t) +
                      event_weights_.capacity() * sizeof(float);
  for (const std::vector<Draw>& draws : steps_) {
    bytes += draws.capacity() * sizeof(Draw);
  }
  return bytes;
}

}  // namespace mcnb
