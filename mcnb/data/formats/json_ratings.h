#pragma once

#include <string>

#include "mcnb/data/formats/text_reader.h"
#include "mcnb/data/ratings.h"

namespace mcnb {

// Names of the fields of a review that make up a rating, and the range of its value.
struct ReviewFields {
  std::string user;
  std::string item;
  std::string rating;
  double lowest;
  double highest;
};

// Reads all remaining lines, each a JSON object with these fields and any others. Ids are strings,
// ratings are numbers.
Ratings read_json_ratings(TextReader& text, const ReviewFields& fields, ThreadPool& threads);

}  // namespace mcnb
