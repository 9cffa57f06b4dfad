#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/display.h"

namespace mcnb::bench {

struct ScaleBenchOptions {
  std::vector<std::uint64_t> users{1000, 1'000'000};
  std::uint64_t samples = 10;  // rewards of each user
  std::uint64_t features = 10;
  std::uint64_t user_features = 0;
  std::uint64_t arms = 10;
  std::uint64_t rounds = 100'000;  // timed, at most, for each number of users
  std::string policies = "hierarchical";
  std::uint64_t threads = 1;
  std::string output = "results";
};

// How a policy grows with its users: every user gets the same number of rewards, in random order,
// through `learn`. Rounds are timed evenly over the last period between two fits; small numbers of
// users play several worlds. Times are processor time, so that other programs do not count. Fits
// are run when they are due and timed apart. Prints the time of a round with and without its share
// of the fits, as a ratio to that of the first number of users, and the memory of a user.
void bench_scale(const ScaleBenchOptions& options, Display& display);

}  // namespace mcnb::bench
