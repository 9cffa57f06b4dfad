#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "mcnb/logs/log_writer.h"
#include "tests/cli/program.h"
#include "tests/evaluate/log_cases.h"
#include "tests/evaluate/synthetic_log.h"

namespace mcnb::train_test {
namespace {

std::string write_log(const TemporaryFolder& folder) {
  const std::string path = folder / "log.jsonl";
  put_file(path, cases::written(LogFormat::kJsonLines, cases::synthetic_log({}, 1, 300)));
  return path;
}

TEST(TrainCommand, SavesAPolicyThatCanBeEvaluatedAndTrainedFurther) {
  const TemporaryFolder folder;
  const std::string log = write_log(folder);
  const std::string state = folder / "new/state";
  const ProgramOutcome outcome = run_program(
      {"train", log, "--policy", "linucb", "--output", state, "--passes", "2", "--weighted"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("600 rounds learned as "), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("1 users; saved as " + state), std::string::npos);
  EXPECT_NE(outcome.errors.find("300 rows"), std::string::npos) << outcome.errors;
  const ProgramOutcome further =
      run_program({"train", log, "--start", state, "--output", folder / "more"});
  EXPECT_EQ(further.status, 0) << further.errors;
  const ProgramOutcome evaluated = run_program(
      {"evaluate", log, "--policy", "state=" + (folder / "more").string() + ":squarecb=10",
       "--estimators", "snips"});
  EXPECT_EQ(evaluated.status, 0) << evaluated.errors;
  const ProgramOutcome both =
      run_program({"train", log, "--start", state, "--policy", "linucb", "--output", folder / "x"});
  EXPECT_EQ(both.status, 2);
}

TEST(TrainCommand, AnInterruptionKeepsWholePasses) {
  const TemporaryFolder folder;
  const std::string log = write_log(folder);
  const std::string state = folder / "state";
  Program program({"train", log, "--policy", "linucb", "--passes", "1000000", "--output", state});
  while (!std::filesystem::exists(state) && program.is_running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  program.interrupt();
  const ProgramOutcome outcome = program.wait();
  EXPECT_EQ(outcome.status, 130) << outcome.errors;
  EXPECT_EQ(outcome.output, "");
  EXPECT_NE(outcome.errors.find("mcnb: interrupted in pass "), std::string::npos);
  EXPECT_NE(outcome.errors.find("passes before"), std::string::npos) << outcome.errors;
  EXPECT_EQ(
      run_program({"evaluate", log, "--policy", "state=" + state, "--estimators", "ips"}).status,
      0);
}

}  // namespace
}  // namespace mcnb::train_test
