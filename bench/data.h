#pragma once

#include <cstdint>
#include <string>

#include "bench/display.h"

namespace mcnb::bench {

struct DataBenchOptions {
  std::uint64_t rows = 25'000'000;  // ratings, in the shape of MovieLens 25M
  std::uint64_t pictures = 60'000;  // of the IDX file, and for each six of a CIFAR batch's
  std::uint64_t threads = 0;
  std::string output = "results/bench-data";
};

// Writes files with the formats and sizes of the public data sets, then times reading them (beside
// `wc -l` and a plain read of the same bytes) and preparing the ratings. Prints a table, writes
// bench-data.csv and removes the files. Throws Error.
void bench_data(const DataBenchOptions& options, Display& display);

}  // namespace mcnb::bench
