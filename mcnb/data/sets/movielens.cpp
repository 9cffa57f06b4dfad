#include "mcnb/data/formats/delimited_ratings.h"
#include "mcnb/data/formats/ratings_readers.h"
#include "mcnb/data/sets/data_set_entries.h"

namespace mcnb {
namespace {

Ratings read_movielens_file(const FoundFiles& files, ThreadPool& threads) {
  return read_movielens(open_file(files, 0), threads);
}

}  // namespace

Ratings read_movielens(const Input& input, ThreadPool& threads) {
  constexpr std::string_view kHeader = "userId,movieId,rating,timestamp";
  TextReader text(input, threads);
  RatingLayout layout{.columns = 4, .lowest = 0.5, .highest = 5.0};
  const std::string_view first = text.need_line();
  if (first == kHeader) {
    text.skip_line();
  } else if (first.find("::") != std::string_view::npos) {
    layout.separator = "::";
  } else if (first.find('\t') != std::string_view::npos) {
    layout.separator = "\t";
  } else {
    text.refuse_line("expected the header " + shown(kHeader) +
                     " or four columns separated by '::' or tabs, found " + shown(first));
  }
  return read_delimited_ratings(text, layout, threads);
}

DataSet movielens_data_set() {
  return {.name = "movielens",
          .kind = DataKind::kRatings,
          .about = "ratings of films, 0.5 to 5",
          .home = "https://grouplens.org/datasets/movielens/25m/",
          .licence = kResearchOnly,
          .folders = {"movielens", "ml-25m"},
          .forms = {{{{"ratings.csv", "ratings.dat", "u.data"}}}},
          .published = {.rows = 25'000'095, .users = 162'541, .items = 59'047},
          .downloads = {{"https://files.grouplens.org/datasets/movielens/ml-25m.zip",
                         "",
                         {{"ratings.csv"}},
                         "md5:6b51fb2759a8657d3bfcbfc42b592ada"}},
          .read_ratings = read_movielens_file};
}

DataSet movielens_small_data_set() {
  return {.name = "movielens-small",
          .kind = DataKind::kRatings,
          .about = "ratings of films, 0.5 to 5, the small edition for trying things out",
          .home = "https://grouplens.org/datasets/movielens/latest/",
          .licence = kResearchOnly,
          .folders = {"movielens-small", "ml-latest-small"},
          .forms = {{{{"ratings.csv"}}}},
          .published = {.rows = 100'836, .users = 610, .items = 9'724},
          .downloads = {{"https://files.grouplens.org/datasets/movielens/"
                         "ml-latest-small.zip",
                         "",
                         {{"ratings.csv",
                           "sha256:aa289ca83157595d0df6aea1be6a4ded676ddc4385472e8313a8ed98"
                           "05352646"}},
                         ""}},
          .read_ratings = read_movielens_file};
}

}  // namespace mcnb
