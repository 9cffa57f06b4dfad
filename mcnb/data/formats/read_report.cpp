#include "mcnb/data/formats/read_report.h"

#include <fmt/core.h>

#include <algorithm>

namespace mcnb {

void ReadReport::skip(std::string_view kind, std::string_view where, std::uint64_t count) {
  const auto known =
      std::ranges::find_if(skipped, [&](const Skipped& other) { return other.kind == kind; });
  if (known == skipped.end()) {
    skipped.push_back({std::string(kind), count, std::string(where)});
  } else {
    known->rows += count;
  }
}

void ReadReport::add(const ReadReport& next) {
  rows += next.rows;
  duplicates += next.duplicates;
  for (const Skipped& kind : next.skipped) {
    skip(kind.kind, kind.first, kind.rows);
  }
}

std::string ReadReport::text() const {
  std::string text = fmt::format("{} rows", rows);
  if (duplicates > 0) {
    text += fmt::format("; {} duplicates", duplicates);
  }
  for (const Skipped& kind : skipped) {
    text += fmt::format("; left out: {} {} (first: {})", kind.rows, kind.kind, kind.first);
  }
  return text;
}

}  // namespace mcnb
