// `mcnb reproduce --results postgresql://...`, as several machines would start it.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/storage/postgres_server.h"
#include "tests/temporary_folder.h"

namespace mcnb::shared_results_test {
namespace {

using cases::PostgresServer;

constexpr const char* kPlan = R"(title = "Shared"
environments = ["synthetic:users=8:items=0:arms=4"]
policies = ["linucb", "random"]
rounds = 3000
seeds = 6
[tune]
rounds = 500
seeds = 1
[[tune.grid]]
policies = ["linucb"]
alpha = [0.01, 1]
)";

std::int64_t claims_in(const std::string& url) {
  PostgresConnection connection(url);
  if (connection.run("SELECT to_regclass('mcnb_results.layout') IS NULL").number(0, 0) != 0) {
    return 0;
  }
  return connection.run("SELECT count(*) FROM mcnb_results.cells WHERE claim IS NOT NULL")
      .number(0, 0);
}

// The page without the time at which it was made.
std::string page_in(const std::filesystem::path& folder) {
  return std::regex_replace(file_contents(folder / "report.html"),
                            std::regex("\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d UTC"), "TIME");
}

// Starts the command until it is killed while it holds a claim.
void leave_a_claim(const std::vector<std::string>& command, const std::string& url) {
  while (claims_in(url) == 0) {
    Program worker(command);
    while (claims_in(url) == 0 && worker.is_running()) {
    }
    worker.signal(SIGKILL);
    EXPECT_EQ(worker.wait().status, -1) << "it should not have finished";
  }
}

TEST(SharedResults, MachinesMakeThePageOfOneAlthoughOneDies) {
  const TemporaryFolder folder;
  const std::string url = PostgresServer::shared().new_database();
  put_file(folder / "mine.toml", kPlan);
  const auto command = [&](const char* output) {
    return std::vector<std::string>{
        "reproduce", (folder / "mine.toml").string(),    "--tune", "--jobs", "1", "--results", url,
        "--output",  (folder / output / "page").string()};
  };
  leave_a_claim(command("dead"), url);
  PostgresConnection(url).run(  // its heartbeats end long ago
      "UPDATE mcnb_results.cells SET beat = beat - interval '61 seconds'");
  Program one(command("one"));
  Program two(command("two"));
  const ProgramOutcome outcomes[] = {one.wait(), two.wait()};
  for (const ProgramOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors.find("missing"), std::string::npos) << outcome.errors;
  }
  EXPECT_EQ(claims_in(url), 0);
  EXPECT_EQ(page_in(folder / "one/page"), page_in(folder / "two/page"));
  EXPECT_EQ(file_contents(folder / "one/page/results.csv"),
            file_contents(folder / "two/page/results.csv"));
  // One machine with a file makes the same, apart from times.
  EXPECT_EQ(run_program({"reproduce", (folder / "mine.toml").string(), "--tune", "--output",
                         (folder / "alone").string()})
                .status,
            0);
  for (const char* name : {"curves.csv", "options.csv"}) {
    EXPECT_EQ(file_contents(folder / "alone/mine-tuned" / name),
              file_contents(folder / "one/page/mine-tuned" / name));
  }
  // The runs of the database in a file make the page of the database, with the same times.
  const std::string file = (folder / "copy.sqlite").string();
  EXPECT_EQ(run_program({"results", "merge", file, url}).status, 0);
  for (const std::string& results : {url, file}) {
    const ProgramOutcome report =
        run_program({"report", "--results", results, "--output", (folder / "report").string()});
    EXPECT_EQ(report.status, 0) << report.errors;
    EXPECT_EQ(file_contents(folder / "report/results.csv"),
              file_contents(folder / "one/page/results.csv"));
  }
}

TEST(SharedResults, AnInterruptedMachineGivesItsRunsBack) {
  const TemporaryFolder folder;
  const std::string url = PostgresServer::shared().new_database();
  put_file(folder / "mine.toml",
           "environments = [\"synthetic:users=8\"]\npolicies = [\"linucb\"]\nrounds = 100000000\n");
  Program worker({"reproduce", (folder / "mine.toml").string(), "--results", url, "--output",
                  (folder / "out").string()});
  while (claims_in(url) == 0 && worker.is_running()) {
  }
  worker.interrupt();
  const ProgramOutcome outcome = worker.wait();
  EXPECT_EQ(outcome.status, 130) << outcome.errors;
  EXPECT_NE(outcome.errors.find("saved in postgresql://"), std::string::npos) << outcome.errors;
  EXPECT_EQ(claims_in(url), 0);
}

// `mcnb run` takes --results, too; no page shows the user or the password of the database.
TEST(SharedResults, ARunKeepsItsResultsThereAndHidesThePassword) {
  const TemporaryFolder folder;
  std::string url = PostgresServer::shared().new_database();
  url.replace(url.find("mcnb@"), 5, "mcnb:secret@");  // which the server does not ask for
  const std::vector<std::string> run{"run",      "--rounds", "50",
                                     "--policy", "random",   "--results",
                                     url,        "--output", (folder / "run").string()};
  EXPECT_EQ(run_program(run).status, 0);
  const ProgramOutcome again = run_program(run);
  EXPECT_NE(again.errors.find("5 of 5 runs kept"), std::string::npos) << again.errors;
  EXPECT_FALSE(std::filesystem::exists(folder / "run/results.sqlite"));
  put_file(folder / "mine.toml",
           "environments = [\"synthetic:users=8\"]\npolicies = [\"random\"]\nrounds = 50\n");
  const ProgramOutcome outcome =
      run_program({"reproduce", (folder / "mine.toml").string(), "--results=" + url, "--output",
                   (folder / "out").string()});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  const std::string page = file_contents(folder / "out/report.html");
  EXPECT_NE(page.find("--results=postgresql://"), std::string::npos) << page;
  for (const std::string& text : {page, outcome.output, outcome.errors, again.errors}) {
    EXPECT_EQ(text.find("secret"), std::string::npos) << text;
  }
  const ProgramOutcome fresh =
      run_program({"reproduce", (folder / "mine.toml").string(), "--fresh", "--results", url,
                   "--output", (folder / "out").string()});
  EXPECT_EQ(fresh.status, 2) << fresh.errors;
  EXPECT_NE(fresh.errors.find("option fresh"), std::string::npos) << fresh.errors;
  const ProgramOutcome unreachable =
      run_program({"run", "--results", "postgresql://mcnb:secret@127.0.0.1:1/none"});
  EXPECT_EQ(unreachable.status, 1);
  EXPECT_NE(unreachable.errors.find("postgresql://127.0.0.1:1/none: cannot connect"),
            std::string::npos)
      << unreachable.errors;
}

}  // namespace
}  // namespace mcnb::shared_results_test
