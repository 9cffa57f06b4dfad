#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mcnb/data/formats/name_table.h"
#include "mcnb/data/formats/read_report.h"

namespace mcnb {

// Who rated what, and how: row k says that users[k] gave items[k] the rating values[k].
//
// Users and items are numbered from 0 in the order in which the file first names them, and no pair
// occurs twice: where the file rates a pair several times, the last rating stands, at the place of
// the first. Nothing here depends on the number of threads that read it.
struct Ratings {
  std::vector<std::uint32_t> users;
  std::vector<std::uint32_t> items;
  std::vector<float> values;  // finite, as in the file
  Names user_names;           // by number
  Names item_names;
  ReadReport report;

  std::size_t size() const { return values.size(); }
  std::size_t user_count() const { return user_names.size(); }
  std::size_t item_count() const { return item_names.size(); }

  bool operator==(const Ratings&) const = default;
};

}  // namespace mcnb
