#include "fuzz/expectations.h"
#include "mcnb/data/formats/samples_readers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  read_or_refuse([&] { return read_notmnist_archive(fuzz_input({data, size}), fuzz_threads()); });
  return 0;
}
