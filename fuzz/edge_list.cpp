#include "fuzz/expectations.h"
#include "mcnb/data/formats/ratings_readers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  read_or_refuse([&] { return read_edge_list(fuzz_input({data, size}), fuzz_threads()); });
  return 0;
}
