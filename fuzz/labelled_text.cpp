#include "fuzz/expectations.h"
#include "mcnb/data/formats/samples_readers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  const Input input = fuzz_input({data, size});
  ThreadPool& threads = fuzz_threads();
  read_or_refuse([&] { return read_shuttle(input, threads); });
  read_or_refuse([&] { return read_mushroom(input, threads); });
  read_or_refuse([&] { return read_magic_telescope(input, threads); });
  read_or_refuse([&] { return read_labelled_csv(input, {}, threads); });
  read_or_refuse([&] { return read_labelled_csv(input, {.separator = ' '}, threads); });
  read_or_refuse([&] { return read_labelled_csv(input, {.label_column = "kind"}, threads); });
  read_or_refuse([&] { return read_samples_file(input, {.header = HeaderLine::kYes}, threads); });
  return 0;
}
