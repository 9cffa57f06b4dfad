#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "bench/display.h"
#include "mcnb/base/thread_pool.h"

namespace mcnb::bench {

// Times whole rounds of preset `default` with scan=all and scan=sampled, for each number of users,
// beside the time that memory alone needs for the parameters that a decision reads. Every user has
// a network of its own, and about a tenth of them agree about an arm. Prints a table and writes
// bench-scans.csv. Part of `mcnb bench breakdown`.
void compare_scans(ThreadPool& threads, std::span<const std::uint64_t> users, std::uint64_t rounds,
                   const std::string& output, Display& display);

}  // namespace mcnb::bench
