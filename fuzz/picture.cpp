#include "mcnb/data/formats/picture.h"
#include "fuzz/expectations.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  const Picture picture = decode_png({data, size}, 28, 28);
  check(picture.pixels.size() == (picture.fault.empty() ? 28U * 28U : 0U),
        "a picture is whole, or there is a fault");
  return 0;
}
