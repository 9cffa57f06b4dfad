#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "mcnb/data/formats/text_reader.h"
#include "mcnb/data/ratings.h"

namespace mcnb {

// How the rows of a ratings file are written: the separator, and which column holds what.
struct RatingLayout {
  std::string separator = ",";  // one or two characters
  bool quotes = false;          // fields may be quoted
  std::size_t columns = 0;      // of every row
  std::size_t user = 0;
  std::size_t item = 1;
  std::size_t rating = 2;
  double lowest = 0.0;
  double highest = 5.0;
};

// Reads all remaining lines.
Ratings read_delimited_ratings(TextReader& text, const RatingLayout& layout, ThreadPool& threads);

}  // namespace mcnb
