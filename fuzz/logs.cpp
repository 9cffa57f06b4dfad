#include "fuzz/expectations.h"
#include "mcnb/evaluate/readers/log_reader.h"

namespace mcnb {

inline void expect_sound(const ReadReport& report) {
  check(!report.text().empty(), "a report says something");
}

}  // namespace mcnb

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  const Input input = fuzz_input({data, size});
  for (const std::uint64_t skipped : {0, 3}) {
    read_or_refuse([&] {
      std::uint64_t visited = 0;
      const ReadReport report =
          read_log(input, {.skip_bad = skipped}, [&](const LoggedRound& round) {
            ++visited;
            check_logged_round(round);
            check(std::isfinite(round.probability), "probabilities are finite");
          });
      check(report.rows == visited, "the report counts the rounds");
      return report;
    });
  }
  return 0;
}
