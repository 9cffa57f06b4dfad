#include "mcnb/data/formats/json_ratings.h"
#include "mcnb/data/formats/ratings_readers.h"

namespace mcnb {

Ratings read_yelp_reviews(const Input& input, ThreadPool& threads) {
  TextReader text(input, threads);
  return read_json_ratings(
      text,
      {.user = "user_id", .item = "business_id", .rating = "stars", .lowest = 1, .highest = 5},
      threads);
}

}  // namespace mcnb
