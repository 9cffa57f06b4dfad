#include "mcnb/data/formats/delimited_ratings.h"
#include "mcnb/data/formats/json_ratings.h"
#include "mcnb/data/formats/ratings_readers.h"

namespace mcnb {

Ratings read_amazon_ratings(const Input& input, ThreadPool& threads) {
  TextReader text(input, threads);
  return read_delimited_ratings(
      text, {.columns = 4, .user = 1, .item = 0, .lowest = 1.0, .highest = 5.0}, threads);
}

Ratings read_amazon_reviews(const Input& input, ThreadPool& threads) {
  TextReader text(input, threads);
  return read_json_ratings(
      text, {.user = "reviewerID", .item = "asin", .rating = "overall", .lowest = 1, .highest = 5},
      threads);
}

}  // namespace mcnb
