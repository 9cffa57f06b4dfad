#include "fuzz/expectations.h"
#include "mcnb/data/formats/samples_readers.h"

// Reads the input twice: with the labels in the last column, and as its own labels.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  const Input input = fuzz_input({data, size});
  read_or_refuse([&] { return read_npy(input, {}); });
  read_or_refuse([&] { return read_npy(input, input); });
  return 0;
}
