#include "mcnb/data/formats/delimited_ratings.h"
#include "mcnb/data/formats/ratings_readers.h"

namespace mcnb {

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
                     " or four columns parted by '::' or tabs, found " + shown(first));
  }
  return read_delimited_ratings(text, layout, threads);
}

}  // namespace mcnb
