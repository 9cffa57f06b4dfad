#include <algorithm>

#include "fuzz/expectations.h"
#include "mcnb/data/formats/samples_readers.h"

// The first byte says how many bytes of labels follow; the rest are the images.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  if (size == 0) {
    return 0;
  }
  const std::span<const std::uint8_t> files(data + 1, size - 1);
  const std::size_t label_bytes = std::min<std::size_t>(data[0], files.size());
  const Input labels = fuzz_input(files.first(label_bytes));
  const Input images = fuzz_input(files.subspan(label_bytes));
  read_or_refuse([&] { return read_idx(images, labels); });
  read_or_refuse([&] { return read_idx(images, labels, {.transpose = true, .first_label = 1}); });
  return 0;
}
