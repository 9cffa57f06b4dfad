#include "mcnb/experiment/report/report.h"

#include <gtest/gtest.h>

#include <functional>

#include "mcnb/experiment/results/plain_labels.h"
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

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) {
    ++count;
  }
  return count;
}

TEST(Report, ThePageBeginsWithTheWinnersAndExplainsItselfInPlainWords) {
  const TemporaryFolder folder;
  const CellStore store(folder / "results.sqlite", "a", "a machine");
  PlanRequest request = request_for("synthetic:users=8");
  request.text =
      "title = \"One\"\nenvironments = [\"synthetic:users=8\"]\n"
      "policies = [\"linucb:users=each\", \"linucb\", \"random\"]\nrounds = 60\nseeds = 3\n";
  const ReportOptions options{.folder = folder.path(), .data = nullptr};
  Watch watch;
  ASSERT_TRUE(make_report({request}, store, options, watch).has_page);
  const std::string page = file_contents(folder / "report.html");
  const std::size_t winners = page.find("<h2 id=\"winners\">");
  ASSERT_NE(winners, std::string::npos);
  EXPECT_LT(page.find("Holm's p", winners), page.find("<figure"));
  EXPECT_EQ(page.find("linucb:users=each"), std::string::npos) << "LinUCB, one per user";
  EXPECT_NE(page.find("above zero LinUCB, one per user has less regret"), std::string::npos);
  EXPECT_EQ(count_of(page, "Differences are the regret"), 1U) << "for both tables";
  EXPECT_EQ(count_of(page, "<figcaption>"), count_of(page, "<figure "));
  // Where the axes are, so that the page can tell the numbers under the pointer.
  EXPECT_EQ(count_of(page, "<figure data-axes=\"\""), 0U);
  for (const char* file : {"regret-synthetic-users-8.pdf", "regret-synthetic-users-8-latex.tex",
                           "policies-synthetic-users-8.tex"}) {
    EXPECT_GT(file_contents(folder / "two" / file).size(), 100U) << file;
  }
}

TEST(Report, LabelsArePlainWordsAndLatex) {
  EXPECT_EQ(plain_label("linucb:users=each:alpha=0.3"), "LinUCB, one per user, alpha 0.3");
  EXPECT_EQ(plain_label("hierarchical:user_features=no:products=yes"),
            "hierarchical, no user features, with products");
  EXPECT_EQ(plain_label("MCNB's"), "MCNB's");
  EXPECT_EQ(with_plain_labels("more than linucb:users=one, mcnb (see neuau)."),
            "more than LinUCB, one for all, M-CNB (see NeuA+U).");
  EXPECT_EQ(with_plain_labels("(mcnb 2 %)"), "(mcnb 2 %)");
  EXPECT_EQ(latex_text("a_b & 5 % ± {x}"), "a\\_b \\& 5 \\% \\ensuremath{\\pm} \\{x\\}");
}

}  // namespace
}  // namespace mcnb::report_test
