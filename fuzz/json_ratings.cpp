#include "fuzz/expectations.h"
#include "mcnb/data/formats/ratings_readers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  const Input input = fuzz_input({data, size});
  read_or_refuse([&] { return read_yelp_reviews(input, fuzz_threads()); });
  read_or_refuse([&] { return read_amazon_reviews(input, fuzz_threads()); });
  return 0;
}
