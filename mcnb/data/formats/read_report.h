#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mcnb {

// What a reader found besides good rows.
struct ReadReport {
  // Rows of one kind that were left out, and the location of the first ("ratings.csv:17").
  struct Skipped {
    std::string kind;
    std::uint64_t rows = 0;
    std::string first;

    bool operator==(const Skipped&) const = default;
  };

  std::uint64_t rows = 0;        // with data, including duplicates
  std::uint64_t duplicates = 0;  // rows whose user and item occur in an earlier row
  std::vector<Skipped> skipped;  // in the order in which the kinds first occurred

  void skip(std::string_view kind, std::string_view where, std::uint64_t count = 1);

  // Adds the report of the next file.
  void add(const ReadReport& next);

  // "100836 rows; 3 duplicates; left out: 2 links of a node to itself (first: graph.txt:17)".
  std::string text() const;

  bool operator==(const ReadReport&) const = default;
};

}  // namespace mcnb
