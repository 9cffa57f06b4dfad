// The flag --device as a user would give it. Without a GPU the answer is an error with a remedy;
// with one (`./test --device cuda`) a run has the same curves as on the CPU.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "mcnb/numeric/kernels.h"
#include "tests/bandit/mcnb/device/host_rounds.h"
#include "tests/cli/program.h"
#include "tests/temporary_folder.h"

namespace mcnb::device_test {
namespace {

ProgramOutcome run_on(const std::string& device, const std::filesystem::path& output,
                      const std::string& policies = "mcnb:preset=algorithm") {
  return run_program({"run", "--device", device, "--policy", policies, "--rounds", "60", "--seeds",
                      "2", "--threads", "1", "--set", "users=10", "--set", "items=50", "--output",
                      output.string()});
}

void expect_refused(const ProgramOutcome& outcome, int status, const std::string& message) {
  EXPECT_EQ(outcome.status, status) << outcome.errors;
  EXPECT_NE(outcome.errors.find(message), std::string::npos) << outcome.errors;
}

TEST(DeviceCommand, RefusesWhatCannotBeComputedThere) {
  const TemporaryFolder folder;
  expect_refused(run_on("tpu", folder.path()), 2, "device: expected cpu or cuda, got \"tpu\"");
  expect_refused(run_on("cuda", folder.path(), "mcnb:preset=algorithm,linucb"), 2, "policy linucb");
  expect_refused(run_program({"reproduce", "no-memory", "--device", "tpu", "--output",
                              folder.path().string()}),
                 2, "device: expected cpu or cuda");
  for (const char* subject : {"networks", "breakdown"}) {
    expect_refused(run_program({"bench", subject, "--device", "tpu"}), 2,
                   "device: expected cpu or cuda");
  }
  if (device::test_on_cuda()) {
    expect_refused(run_on("cuda", folder.path(), "mcnb:preset=algorithm:scan=sampled"), 2, "scan");
  }
}

TEST(DeviceCommand, HasTheCurvesOfTheCpuOrNamesTheRemedy) {
  const TemporaryFolder on_cpu;
  const TemporaryFolder on_device;
  const ProgramOutcome outcome = run_on("cuda", on_device.path());
  if (!device::cuda_description().starts_with("NVIDIA")) {
    EXPECT_NE(outcome.status, 0);
    EXPECT_NE(outcome.errors.find("device=cpu"), std::string::npos) << outcome.errors;
    return;
  }
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  if (kernels::simd_target().starts_with("avx")) {
    run_on("cpu", on_cpu.path());
    EXPECT_EQ(file_contents(on_device / "curves.csv"), file_contents(on_cpu / "curves.csv"));
  }
}

TEST(DeviceCommand, BenchmarksRunOnTheGpuOrNameTheRemedy) {
  const TemporaryFolder folder;
  const std::vector<std::vector<std::string>> commands = {
      {"bench", "networks", "--users", "500", "--no-peer"},
      {"bench", "breakdown", "--users", "500", "--rounds", "3", "--no-peer"}};
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--device", "cuda", "--output", folder.path().string()});
    const ProgramOutcome outcome = run_program(command);
    if (!device::cuda_description().starts_with("NVIDIA")) {
      EXPECT_EQ(outcome.output, "");
      EXPECT_NE(outcome.status, 0);
      EXPECT_NE(outcome.errors.find("device=cpu"), std::string::npos) << outcome.errors;
      continue;
    }
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    const std::string table = "bench-" + command[1] + "-cuda.csv";
    EXPECT_NE(file_contents(folder / table).find("\n500,"), std::string::npos) << table;
  }
}

}  // namespace
}  // namespace mcnb::device_test
