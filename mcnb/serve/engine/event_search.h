#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mcnb/bandit/opinions.h"
#include "mcnb/serve/store/storage.h"

namespace mcnb {

// Looks through the log for what people ask about. Slow: for the housekeeping, a bounded number of
// rows at a time, and of them at most 64 MiB.

// Where a model's log ends, and whose events are wanted.
struct LogView {
  std::uint32_t model = 0;
  std::uint64_t user = 0;  // hash of the name; 0: everybody's
  std::uint64_t last_position = 0;
  std::size_t dimension = 0;
};

// A decision and what followed from it.
struct FoundEvent {
  Decision decision;
  std::vector<Reward> rewards;  // in the order they came
  bool activated = false;       // by a request of its own
};

// The latest events among so many rows at the end of the log, the latest first.
std::vector<FoundEvent> latest_events(LogStore& log, const LogView& view, std::size_t most,
                                      std::uint64_t rows);
// Adds to the decisions of one event, which begin at a position, what followed within so many rows.
void follow_events(LogStore& log, const LogView& view, std::uint64_t position, std::uint64_t rows,
                   std::vector<FoundEvent>& slots);

// Where a sample of a model's policy comes from; empty texts if no row that was looked at has it.
struct SampleSource {
  std::string event_id;
  std::string user_id;
  std::string action;
};
// The names of what a closer look shows, as far as the last rows of the log have them.
struct LookNames {
  std::vector<std::string> members;  // by their hashes, in their order
  std::vector<SampleSource> samples;
};
LookNames names_of_look(LogStore& log, const LogView& view, std::span<const std::uint64_t> members,
                        std::span<const CloserLook::MovingSample> samples, std::uint64_t rows);

// How many recent actions people are shown, and the rows of the log in which they are looked for.
inline constexpr std::size_t kRecentArms = 12;
inline constexpr std::uint64_t kRecentRows = 2'000;

struct RecentArm {
  std::string id;
  std::vector<float> features;
};
// The actions that were chosen lately, all with different ids, the latest first.
std::vector<RecentArm> recent_arms(LogStore& log, const LogView& view, std::size_t most,
                                   std::uint64_t rows);

}  // namespace mcnb
