#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mcnb/experiment/results/statistics.h"

namespace mcnb {

// How numbers are written into the cells of tables.

using TableRow = std::vector<std::string>;

// The regret of a policy less that of the first policy. All tables use this sign.
struct Difference {
  double mean = 0.0;
  std::optional<PairedComparison> judged;  // empty: one seed, or differences that are all equal
};

// The number that the whole text is; nullopt for any other text.
std::optional<double> as_number(const std::string& text);

// For machines: all digits; an empty text for a missing number.
std::string digits(const std::optional<double>& value);
// Appends difference, low, high, p and Holm's p for machines.
void add_digits(TableRow& row, const std::optional<Difference>& difference);

// For people: "164 ± 8", "+12.0 [+3.1, +20.9]", "+8.1 %", "< 0.0001"; "-" for a missing number.
std::string with_deviation(double value, const std::optional<double>& deviation);
std::string difference_text(const std::optional<Difference>& difference);
std::string p_text(const std::optional<PairedComparison>& comparison);
std::string p_text(const std::optional<Difference>& difference);
std::string holm_text(const std::optional<PairedComparison>& comparison);
std::string holm_text(const std::optional<Difference>& difference);
std::string percent_text(const std::optional<double>& value);

// "12 s", "3:05 min", "1:40 h".
std::string duration_text(double seconds);

// "1 run is", "3 runs are".
std::string runs_are(std::size_t count);

// A sentence for captions that explains the column of differences.
std::string about_differences(const std::string& first);

// " (mean of 10 seeds ± deviation)", for titles of pictures with error bars; empty for one seed.
std::string seeds_text(std::uint64_t seeds);

}  // namespace mcnb
