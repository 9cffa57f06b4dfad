#include "bench/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"

namespace mcnb::bench {

void require_within(const char* flag, std::uint64_t value, std::uint64_t low, std::uint64_t high) {
  if (value < low || value > high) {
    throw Error(ErrorKind::kUsage,
                fmt::format("--{}: expected {} to {}, got {}", flag, low, high, value));
  }
}

void make_output_folder(const std::string& folder) {
  if (folder.empty()) {
    throw Error(ErrorKind::kUsage, "--output: expected the name of a folder, got \"\"");
  }
  const std::filesystem::path probe = std::filesystem::path(folder) / "probe";
  write_file(probe, "");
  std::filesystem::remove(probe);
}

std::string milliseconds(double seconds) { return fmt::format("{:.3f} ms", seconds * 1e3); }

std::string percent(double share) { return fmt::format("{:.0f} %", share * 100); }

std::string gibibytes(std::size_t bytes) {
  return fmt::format("{:.3f} GiB", static_cast<double>(bytes) / 0x1p30);
}

std::string exact(double value) { return fmt::format("{:.6g}", value); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0.0 : values[values.size() / 2];
}

std::vector<std::uint64_t> at_most(std::uint64_t limit, const std::vector<std::uint64_t>& numbers) {
  std::vector<std::uint64_t> kept;
  for (const std::uint64_t number : numbers) {
    if (number <= limit) {
      kept.push_back(number);
    }
  }
  return kept;
}

std::string joined(const std::vector<std::uint64_t>& numbers) {
  std::string text;
  for (const std::uint64_t number : numbers) {
    text += (text.empty() ? "" : ",") + std::to_string(number);
  }
  return text;
}

}  // namespace mcnb::bench
