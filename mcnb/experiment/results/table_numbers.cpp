#include "mcnb/experiment/results/table_numbers.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "mcnb/base/options.h"

namespace mcnb {
namespace {

std::string probability_text(double p) {
  return p < 0.0001 ? "< 0.0001" : fmt::format("{:.4f}", p);
}

}  // namespace

std::optional<double> as_number(const std::string& text) {
  double value = 0.0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                   : std::nullopt;
}

std::string digits(const std::optional<double>& value) { return value ? number_text(*value) : ""; }

void add_digits(TableRow& row, const std::optional<Difference>& difference) {
  const bool judged = difference && difference->judged;
  row.push_back(difference ? number_text(difference->mean) : "");
  row.push_back(judged ? number_text(difference->judged->low) : "");
  row.push_back(judged ? number_text(difference->judged->high) : "");
  row.push_back(judged ? number_text(difference->judged->p_value) : "");
  row.push_back(judged ? number_text(difference->judged->holm_p) : "");
}

std::string with_deviation(double value, const std::optional<double>& deviation) {
  return deviation ? fmt::format("{:.0f} ± {:.0f}", value, *deviation)
                   : fmt::format("{:.0f}", value);
}

std::string percent_text(const std::optional<double>& value) {
  return value ? fmt::format("{:+.1f} %", *value) : "-";
}

std::string difference_text(const std::optional<Difference>& difference) {
  if (!difference) {
    return "-";
  }
  return difference->judged ? fmt::format("{:+.1f} [{:+.1f}, {:+.1f}]", difference->mean,
                                          difference->judged->low, difference->judged->high)
                            : fmt::format("{:+.1f} [-]", difference->mean);
}

std::string p_text(const std::optional<PairedComparison>& comparison) {
  return comparison ? probability_text(comparison->p_value) : "-";
}

std::string p_text(const std::optional<Difference>& difference) {
  return p_text(difference ? difference->judged : std::nullopt);
}

std::string holm_text(const std::optional<PairedComparison>& comparison) {
  return comparison ? probability_text(comparison->holm_p) : "-";
}

std::string holm_text(const std::optional<Difference>& difference) {
  return holm_text(difference ? difference->judged : std::nullopt);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::clamp(seconds, 0.0, 1e9) + 0.5);
  if (whole < 60) {
    return fmt::format("{} s", whole);
  }
  if (whole < 3600) {
    return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  }
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

std::string runs_are(std::size_t count) {
  return count == 1 ? "1 run is" : fmt::format("{} runs are", count);
}

std::string about_differences(const std::string& first) {
  return fmt::format(
      "Differences are the regret of the other method less that of {0}, seed by seed, with their "
      "95 % interval: above zero {0} has less regret. Holm's p-values are corrected for the number "
      "of methods that are compared with {0}. A dash means that no interval can be "
      "computed: there is one seed, or all differences are equal",
      first);
}

std::string seeds_text(std::uint64_t seeds) {
  return seeds > 1 ? fmt::format(" (mean of {} seeds ± deviation)", seeds) : "";
}

}  // namespace mcnb
