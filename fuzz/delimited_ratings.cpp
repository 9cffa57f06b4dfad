#include <initializer_list>

#include "fuzz/expectations.h"
#include "mcnb/data/formats/ratings_readers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  const Input input = fuzz_input({data, size});
  ThreadPool& threads = fuzz_threads();
  read_or_refuse([&] { return read_movielens(input, threads); });
  read_or_refuse([&] { return read_amazon_ratings(input, threads); });
  for (const RatingsCsvOptions& options : std::initializer_list<RatingsCsvOptions>{
           {},
           {.separator = ';'},
           {.separator = '\t', .header = HeaderLine::kYes},
           {.separator = ':', .header = HeaderLine::kNo},
           {.user_column = "who", .item_column = "what", .rating_column = "stars"}}) {
    read_or_refuse([&] { return read_ratings_csv(input, options, threads); });
  }
  return 0;
}
