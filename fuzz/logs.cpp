#include "fuzz/expectations.h"
#include "mcnb/evaluate/readers/column_reader.h"
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
  read_or_refuse([&] {
    ColumnReader table(input, 3);
    std::vector<PolicyRow> rows(5);
    while (const std::size_t count = table.read(rows)) {
      for (const PolicyRow& row : std::span(rows).first(count)) {
        check(row.row.weight >= 0.0 && std::isfinite(row.row.weight) &&
                  std::isfinite(row.row.reward) && row.probability > 0.0,
              "rows have a weight, a reward and a probability");
      }
    }
    check(table.skipped() <= 3, "no more lines are skipped than allowed");
    return ReadReport{.rows = 1};
  });
  return 0;
}
