#include "mcnb/data/formats/delimited_ratings.h"
#include "mcnb/data/formats/json_ratings.h"
#include "mcnb/data/formats/ratings_readers.h"
#include "mcnb/data/sets/data_set_entries.h"

namespace mcnb {
namespace {

Ratings read_amazon(const FoundFiles& files, ThreadPool& threads) {
  const std::string name = files.paths[0].filename().string();
  return name.find(".json") != std::string::npos
             ? read_amazon_reviews(open_file(files, 0), threads)
             : read_amazon_ratings(open_file(files, 0), threads);
}

}  // namespace

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

DataSet amazon_data_set() {
  return {.name = "amazon",
          .kind = DataKind::kRatings,
          .about = "ratings of clothes by customers of a shop, 1 to 5",
          .home = "https://nijianmo.github.io/amazon/",
          .licence = "research use",
          .folders = {"amazon"},
          .forms = {{{{"AMAZON_FASHION.csv", "AMAZON_FASHION.json", "AMAZON_FASHION_5.json"}}}},
          .published = {.rows = 883'636},
          .by_hand =
              "its home page hands the files out: take AMAZON_FASHION.csv from "
              "\"ratings only\"",
          .read_ratings = read_amazon};
}

}  // namespace mcnb
