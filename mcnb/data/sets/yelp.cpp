#include "mcnb/data/formats/json_ratings.h"
#include "mcnb/data/formats/ratings_readers.h"
#include "mcnb/data/sets/data_set_entries.h"

namespace mcnb {

Ratings read_yelp_reviews(const Input& input, ThreadPool& threads) {
  TextReader text(input, threads);
  return read_json_ratings(
      text,
      {.user = "user_id", .item = "business_id", .rating = "stars", .lowest = 1, .highest = 5},
      threads);
}

DataSet yelp_data_set() {
  return {.name = "yelp",
          .kind = DataKind::kRatings,
          .about = "reviews of businesses, 1 to 5 stars",
          .home = "https://www.yelp.com/dataset",
          .licence = kResearchOnly,
          .folders = {"yelp"},
          .forms = {{{{"yelp_academic_dataset_review.json"}}}},
          .by_hand = "its home page asks you to accept its terms first",
          .read_ratings = [](const FoundFiles& files, ThreadPool& threads) {
            return read_yelp_reviews(open_file(files, 0), threads);
          }};
}

}  // namespace mcnb
