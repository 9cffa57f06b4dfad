#include "fuzz/expectations.h"
#include "mcnb/data/formats/samples_readers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  const std::vector<std::string> names(10, "class");
  read_or_refuse([&] { return read_cifar10_batch(fuzz_input({data, size}), names); });
  return 0;
}
