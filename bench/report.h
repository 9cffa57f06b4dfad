#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Shared by the options and tables of all benchmarks.
namespace mcnb::bench {

// Throws Error (kUsage) naming the flag unless the value is in its range.
void require_within(const char* flag, std::uint64_t value, std::uint64_t low, std::uint64_t high);

// Makes the folder for results, before the benchmark spends time. Throws Error: kUsage for an empty
// name, kSystem if the folder cannot be made or written to.
void make_output_folder(const std::string& folder);

std::string milliseconds(double seconds);                       // "1.234 ms"
std::string percent(double share);                              // "12 %"
std::string gibibytes(std::size_t bytes);                       // "0.123 GiB"
std::string exact(double value);                                // for machines
std::string joined(const std::vector<std::uint64_t>& numbers);  // "1,2,3", as the peers read lists

double median(std::vector<double> values);  // 0 if there are none
std::vector<std::uint64_t> at_most(std::uint64_t limit, const std::vector<std::uint64_t>& numbers);

}  // namespace mcnb::bench
