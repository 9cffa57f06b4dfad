#include "mcnb/experiment/report/report.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/temporary_folder.h"

namespace mcnb::report_test {
namespace {

constexpr const char* kPlan =
    "title = \"Two\"\nenvironments = [\"synthetic:users=8\", \"synthetic:users=9\"]\n"
    "policies = [\"random\"]\nrounds = 20\nseeds = 2\n";

PlanRequest request_for(const std::string& environment) {
  return {.name = "two.toml", .text = kPlan, .environments = {environment}, .command = "mcnb x"};
}

// Counts runs, and calls a function while a section is made.
class Watch : public ReportObserver {
 public:
  explicit Watch(std::function<void()> meanwhile = {}) : meanwhile_(std::move(meanwhile)) {}

  void runs_finished(const Plan&, const ExperimentProgress& progress, double) override {
    done += progress.cells_done;
    kept += progress.cells_kept;
  }
  void section_made(const Section&, const std::filesystem::path&) override {
    if (meanwhile_) {
      meanwhile_();
    }
  }
  void not_on_page(const std::string& what_and_why) override { missing = what_and_why; }

  std::size_t done = 0;
  std::size_t kept = 0;
  std::string missing;

 private:
  std::function<void()> meanwhile_;
};

TEST(Report, RunsWhatIsMissingAndShowsIt) {
  const TemporaryFolder folder;
  const CellStore store(folder / "results.sqlite", "a", "a machine");
  const ReportOptions options{.folder = folder.path(), .data = nullptr};
  Watch first;
  const ReportOutcome made = make_report({request_for("synthetic:users=8")}, store, options, first);
  EXPECT_TRUE(made.has_page);
  EXPECT_EQ(first.done, 2U);
  EXPECT_EQ(first.kept, 0U);
  Watch again;
  make_report({request_for("synthetic:users=8")}, store, options, again);
  EXPECT_EQ(again.kept, 2U);
  EXPECT_EQ(made.missing + made.failed + made.without_data, 0U);
  EXPECT_NE(file_contents(folder / "report.html").find("a machine"), std::string::npos);
}

// Another program writes its data set of the plan, and its page, just before this one writes.
TEST(Report, ThePageHasWhatProgramsAtTheSameTimeAskedFor) {
  const TemporaryFolder folder;
  const CellStore store(folder / "results.sqlite", "a");
  const ReportOptions options{.folder = folder.path(), .data = nullptr};
  Watch watch([&] {
    const CellStore other_store(folder / "results.sqlite", "a");
    Watch quiet;
    make_report({request_for("synthetic:users=9")}, other_store, options, quiet);
  });
  make_report({request_for("synthetic:users=8")}, store, options, watch);
  const std::string page = file_contents(folder / "report.html");
  const std::string curves = file_contents(folder / "two" / "curves.csv");
  for (const char* users : {"users=8", "users=9"}) {
    EXPECT_NE(page.find(users), std::string::npos) << users;
    EXPECT_NE(curves.find(users), std::string::npos) << users;
  }
}

TEST(Report, SaysWhatIsNotOnThePage) {
  const TemporaryFolder folder;
  const CellStore store(folder / "results.sqlite", "a");
  store.keep_text("request broken", "{");
  Watch watch;
  make_report({request_for("synthetic:users=8")}, store, {.folder = folder.path(), .data = nullptr},
              watch);
  EXPECT_NE(watch.missing.find("request broken"), std::string::npos);
}

}  // namespace
}  // namespace mcnb::report_test
