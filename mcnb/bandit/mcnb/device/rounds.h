#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mcnb/base/ids.h"
#include "mcnb/base/random.h"
#include "mcnb/numeric/network.h"

namespace mcnb::device {

// An arm of a pass over all learners.
struct PassArm {
  UserId learner{};
  PhiloxKey key{};  // of the random numbers that draw events (RngFamily)
  std::span<const float> x;
};

// What a pass found out about an arm. Borrows memory of the rounds until the next pass.
struct PassResult {
  std::size_t members = 0;
  std::size_t participants = 0;      // members with a history
  std::size_t draws = 0;             // different events that they drew
  std::uint32_t trained = 0;         // how often the arm's learner has been trained
  bool has_ordinary_rewards = true;  // all draws
  float own = 0.0F;                  // f(x) of the arm's learner; not finite: no cluster
  std::span<const float> sums;       // W_1 x of Theta after a step along the draws, padded
  std::span<const float> last;       // W_2 after it, padded
};

// What a reward would do.
struct LessonResult {
  std::size_t members = 0;       // learners that take the step
  std::span<const float> theta;  // after a step along the draws; borrowed until the next call
};

// All that the rounds hold, for the way to and from the CPU.
struct Contents {
  std::vector<float> learners;  // one network after the other
  std::vector<float> theta;
  std::vector<std::uint32_t> trained;                  // by learner
  std::vector<std::vector<std::uint32_t>> references;  // by learner: its events
  std::vector<float> events;                           // features of each, then its reward
};

// How large they are.
struct RoundSizes {
  NetworkShape shape;
  std::size_t users = 0;
  float gap = 0.0F;  // learners agree about an arm if their estimates differ by at most this
  double meta_rate = 0.0;
  float rate = 0.0F;  // of the learners
};

// Time that a kernel or a copy took, by the name of its part.
struct PartTime {
  std::string name;
  bool is_copy = false;
  double seconds = 0.0;
};

// The numbers of M-CNB on a device, and its rounds there: the learners' networks, Theta, histories
// and counts. Lists of members leave the device only when `members` asks for them, estimates never.
// The bits are those of the CPU with AVX2 or AVX-512. Calls must not overlap.
class Rounds {
 public:
  static constexpr std::size_t kMostArms = 16;  // of a pass

  virtual ~Rounds() = default;

  // One pass over all learners for these arms: clusters, draws, and the adaptation of Theta.
  // Requires 1 to kMostArms arms with all features each.
  virtual std::vector<PassResult> pass(std::span<const PassArm> arms) = 0;

  // The network of the learner of an arm of the last pass.
  virtual std::span<const float> learner_of_pass(std::size_t arm) const = 0;
  // The cluster of an arm of the last pass, ascending.
  virtual std::vector<UserId> members(std::size_t arm) = 0;

  // Finds out what the reward of an arm of the last pass would do to Theta. With `alone` only the
  // arm's learner takes the step. Changes nothing.
  virtual LessonResult begin_lesson(std::size_t arm, bool alone, float reward) = 0;
  // The same for an arm outside any pass; Theta stays.
  virtual void begin_lesson(UserId learner, std::span<const float> x, float reward) = 0;
  // Moves Theta, lets the learners take their steps and remember the event.
  virtual void finish_lesson() = 0;

  virtual std::vector<float> learner(UserId learner) = 0;
  virtual std::size_t user_count() const = 0;
  virtual std::size_t event_count() const = 0;
  virtual std::size_t memory_bytes() const = 0;  // of the device
  virtual Contents download() = 0;
  // Replaces everything; the number of users may differ from the present one.
  virtual void upload(const Contents& contents) = 0;
  // Waits until all work is done.
  virtual void wait() = 0;

  // Fills learners and histories with numbers made on the device, for benchmarks (made_users.h).
  virtual void make_users(std::uint32_t events_per_user, std::uint64_t seed, float scale) = 0;
  // From now on every kernel and copy of a pass or lesson is timed; part_times returns those since
  // its last call, in their order.
  virtual void set_profiling(bool on) = 0;
  virtual std::vector<PartTime> part_times() = 0;
  // The shortest of a few plain reads of all learners: what the memory allows a pass.
  virtual double seconds_to_read() = 0;
};

// Throws Error (kUsage) if this program was built without CUDA, (kSystem) if there is no GPU or its
// driver is too old, (kLimit) if the GPU has too little memory.
std::unique_ptr<Rounds> make_cuda_rounds(const RoundSizes& sizes, std::span<const float> start);

// "NVIDIA H200, driver 13.0", or why there is none.
std::string cuda_description();

}  // namespace mcnb::device
