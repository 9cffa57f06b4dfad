#include <gtest/gtest.h>

#include "tests/cli/program.h"

namespace mcnb::log_test {
namespace {

constexpr const char* kLog =
    R"({"event":"e1","user":"ann","time":"2026-01-31T10:00:00Z","actions":[{"id":"tea",)"
    R"("probability":0.75},{"id":"juice","probability":0.25}],"chosen":"tea","reward":1})"
    "\n"
    R"({"event":"e2","time":"2026-02-01T10:00:00Z","actions":["tea","juice"],"chosen":1,)"
    R"("probability":0.25,"reward":0})"
    "\n";

void expect_in(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "missing: " << part << "\nin: " << text;
  }
}

TEST(Log, ShowPrintsTheFirstRoundsAndWhatThereIs) {
  const TemporaryFolder folder;
  put_file(folder / "log.jsonl", kLog);
  const ProgramOutcome outcome =
      run_program({"log", "show", folder / "log.jsonl", "--rounds", "1"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  expect_in(outcome.output, {"2026-01-31T10:00:00.000000Z", "ann", "tea", "0.75", "... and 1 more",
                             "2 rows", "mean reward 0.5 of 2 rounds"});
}

TEST(Log, ExportWritesWhatItReads) {
  const TemporaryFolder folder;
  put_file(folder / "log.jsonl", kLog);
  const ProgramOutcome lines =
      run_program({"log", "export", folder / "log.jsonl", "--format", "jsonl"});
  EXPECT_EQ(lines.status, 0) << lines.errors;
  put_file(folder / "again.jsonl", lines.output);
  const ProgramOutcome csv = run_program(
      {"log", "export", folder / "again.jsonl", "--format", "csv", "--output", folder / "log.csv"});
  EXPECT_EQ(csv.status, 0) << csv.errors;
  EXPECT_TRUE(csv.output.empty());
  const ProgramOutcome back =
      run_program({"log", "export", folder / "log.csv", "--format", "jsonl"});
  EXPECT_EQ(back.output, lines.output);
  const ProgramOutcome part = run_program(
      {"log", "export", folder / "log.jsonl", "--format", "dsjson", "--to", "2026-02-01"});
  EXPECT_EQ(part.status, 0) << part.errors;
  expect_in(part.output,
            {"\"_label_cost\":-1", "\"a\":[1,2]", "\"p\":[0.75,0.25]", "\"_multi\":["});
}

TEST(Log, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  put_file(folder / "log.jsonl", std::string(kLog) + "{\"actions\":[]}\n");
  const std::string log = folder / "log.jsonl";
  const ProgramOutcome damaged = run_program({"log", "show", log});
  EXPECT_EQ(damaged.status, 1);
  expect_in(damaged.errors, {log + ":3: expected a member \"chosen\", found none"});
  const ProgramOutcome skipped = run_program({"log", "show", log, "--skip-bad", "1"});
  EXPECT_EQ(skipped.status, 0);
  expect_in(skipped.output, {"2 rows; left out: 1 damaged lines (first: " + log + ":3)"});
  const ProgramOutcome format =
      run_program({"log", "export", log, "--format", "xml", "--skip-bad", "1"});
  EXPECT_EQ(format.status, 2);
  expect_in(format.errors, {"format \"xml\": expected dsjson, jsonl or csv"});
  const ProgramOutcome time = run_program({"log", "show", log, "--from", "today"});
  EXPECT_EQ(time.status, 2);
  expect_in(time.errors, {"--from \"today\": expected a time such as 2026-01-31"});
  const ProgramOutcome missing = run_program({"log", "show", folder / "none.jsonl"});
  EXPECT_EQ(missing.status, 1);
  expect_in(missing.errors, {"none.jsonl"});
  EXPECT_EQ(run_program({"log", "show", log, "--model", "m"}).status, 2);
}

}  // namespace
}  // namespace mcnb::log_test
