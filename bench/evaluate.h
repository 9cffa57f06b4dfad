#pragma once

#include <cstdint>
#include <string>

namespace mcnb::bench {

struct EvaluateBenchOptions {
  std::uint64_t rows = 26'000'000;  // decisions, as in the full Open Bandit Dataset
  bool peer = true;
  std::string output = "results/bench-evaluate";
};

// Writes a table of decisions, then times IPS, SNIPS and DR with their intervals on one thread:
// from the table, beside pandas reading the same columns (processor time of both), and from memory,
// beside reading that memory. Checks the values first. Prints a table, writes bench-evaluate.csv
// and removes the files. Throws Error.
void bench_evaluate(const EvaluateBenchOptions& options);

}  // namespace mcnb::bench
