#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/display.h"

namespace mcnb::bench {

struct BreakdownOptions {
  std::vector<std::uint64_t> users{500, 5'000, 10'000, 20'000, 100'000, 1'000'000};
  std::vector<std::uint64_t> meta_samples{0, 100};  // 0: all members of the cluster
  std::uint64_t threads = 2;
  std::uint64_t rounds = 30;                 // timed, for every case; 0: not measured
  std::uint64_t scan_rounds = 30;            // for the comparison of scans; 0: not measured
  std::uint64_t experiment_rounds = 10'000;  // rounds with preset `experiments`; 0: not measured
  bool peer = true;
  std::uint64_t peer_users =
      20'000;  // PyTorch is timed up to so many users; more would take many minutes
  std::string output = "results";
};

// Times the parts of a round of M-CNB with preset `algorithm`, beside the paper's numbers and
// PyTorch; then whole rounds with scan=all and scan=sampled (scans.h), and a whole run with preset
// `experiments` beside a plain PyTorch script. Prints tables and writes bench-breakdown.csv,
// bench-scans.csv and bench-experiments.csv. Throws Error for options out of range. `mcnb reproduce
// table-breakdown` measures whole runs instead.
void bench_breakdown(const BreakdownOptions& options, Display& display);

}  // namespace mcnb::bench
