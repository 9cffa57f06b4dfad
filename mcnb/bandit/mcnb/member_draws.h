#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mcnb/bandit/history.h"
#include "mcnb/bandit/mcnb/candidate.h"
#include "mcnb/bandit/mcnb/mcnb_options.h"

namespace mcnb {

// A stored event that takes part in one step of an adaptation.
struct Draw {
  EventId event{};
  float weight = 0.0F;  // the weights of one step sum to 1
};

// The events that the members of a cluster contribute to an adaptation of the meta-learner, step by
// step. Every draw is addressed by seed, round, arm, step and member, so that feedback that comes
// later repeats the draws of its decision (from histories that may have grown). Members without a
// history contribute nothing.
//
// An object holds the memory of one thread, which it reuses from draw to draw.
class MemberDraws {
 public:
  MemberDraws(const McnbOptions& options, std::uint64_t seed);

  // The draws of every step of the adaptation for one arm; valid until the next call. A step has no
  // draws if no member has a history. If the cluster is enough for all steps, each takes the next
  // members of it, otherwise each draws from all of them.
  std::span<const std::vector<Draw>> draw(const Histories& histories, const FoundCluster& cluster,
                                          RoundId round, ArmIndex arm);

  std::size_t memory_bytes() const;

 private:
  // Addresses the draws of one step.
  struct StepAddress {
    RoundId round{};
    std::uint32_t step_and_arm = 0;
  };

  void draw_step(const Histories& histories, std::span<const UserId> participants,
                 StepAddress address, std::vector<Draw>& draws);
  std::span<const UserId> select_participants(StepAddress address);
  void restore_member_order();
  void add_one_event_each(const Histories& histories, std::span<const UserId> participants,
                          StepAddress address, std::vector<Draw>& draws);
  void add_whole_histories(const Histories& histories, std::span<const UserId> participants,
                           std::vector<Draw>& draws);
  void add(EventId event, float weight, std::vector<Draw>& draws);

  std::uint64_t seed_;
  MetaDraw meta_draw_;
  std::size_t most_participants_;         // in a step; 0: all members
  std::vector<std::vector<Draw>> steps_;  // what `draw` returned last
  std::vector<UserId> members_;           // of the cluster, with a history
  std::vector<std::size_t> swaps_;        // swaps_[i] was swapped with i to select participants
  std::vector<std::uint32_t> numbers_;    // of the participants
  std::vector<std::uint32_t> words_;      // the random word of each participant
  std::vector<float> event_weights_;      // by event; all zero between steps
};

}  // namespace mcnb
