#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mcnb/data/formats/name_table.h"
#include "mcnb/data/formats/read_report.h"

namespace mcnb {

// Who rated what, and how: row k says that users[k] gave items[k] the rating values[k].
//
// Users and items are numbered from 0 in the order in which the file first names them. No pair
// occurs twice: if the file rates a pair several times, the row of the first rating has the value
// of the last. The result does not depend on the number of threads that read it.
struct Ratings {
  std::vector<std::uint32_t> users;
  std::vector<std::uint32_t> items;
  std::vector<float> values;  // finite, as in the file
  NameList user_names;        // by number
  NameList item_names;
  ReadReport report;

  std::size_t size() const { return values.size(); }
  std::size_t user_count() const { return user_names.size(); }
  std::size_t item_count() const { return item_names.size(); }

  bool operator==(const Ratings&) const = default;
};

}  // namespace mcnb
