#include "fuzz/expectations.h"
#include "mcnb/evaluate/readers/log_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  const Input input = fuzz_input({data, size});
  for (const std::uint64_t skipped : {0, 3}) {
    read_or_refuse([&] {
      return read_log(input, {.skip_bad = skipped}, [](const LoggedRound& round) {
        check_logged_round(round);  // throws Error (kInput) again if it was not checked
      });
    });
  }
  return 0;
}
