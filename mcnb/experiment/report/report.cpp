#include "mcnb/experiment/report/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/experiment/report/kept_section.h"
#include "mcnb/experiment/report/page_facts.h"
#include "mcnb/experiment/report/request_memory.h"

namespace mcnb {
namespace {

void hide_folders(Section& section) {
  for (NamedTable& table : section.tables) {
    table.caption = without_folders(table.caption);
  }
  for (NamedPicture& picture : section.pictures) {
    picture.caption = without_folders(picture.caption);
  }
  for (std::string& note : section.notes) {
    note = without_folders(note);
  }
}

// The first sentence of an error message; the rest says what to do on this machine.
std::string first_sentence(const std::string& text) {
  return text.substr(0, text.find_first_of("\n;"));
}

class ReportMaker {
 public:
  ReportMaker(const CellStore& store, const ReportOptions& options, ReportObserver& observer)
      : store_(store), options_(options), observer_(observer) {}

  ReportOutcome make(const std::vector<PlanRequest>& requests) {
    for (const PlanRequest& request : requests) {
      add(request);
      if (outcome_.interrupted) {
        return outcome_;
      }
      write_page();
    }
    complete_page();
    return outcome_;
  }

 private:
  void add(const PlanRequest& request) {
    const Plan plan = requested_plan(request);
    const std::string key = page_key(plan);
    observer_.plan_begins(plan);
    if (!options_.stored_only && !is_remembered(key)) {
      remember(store_, request);  // so that a report can show runs of an interrupted plan
    }
    Section section = make_section_of(plan, request, options_.stored_only, outcome_);
    if (outcome_.interrupted) {
      return;
    }
    observer_.section_made(section, options_.folder / plan.name);
    if (options_.stored_only) {
      pinned_.insert(key);
      on_page_[key] = {request, plan, std::move(section)};
      return;
    }
    const PlanRequest whole = remember(store_, request);
    if (whole.environments == request.environments) {
      on_page_[key] = {whole, plan, std::move(section)};
    } else {
      show_stored(key, whole);
    }
  }

  bool is_remembered(const std::string& key) const {
    return std::ranges::count(remembered_requests(store_).all, key, &RememberedRequest::key) > 0;
  }

  // Puts a section of finished runs on the page.
  void show_stored(const std::string& key, const PlanRequest& request) {
    ReportOutcome ignored;
    const Plan plan = requested_plan(request);
    on_page_[key] = {request, plan, make_section_of(plan, request, true, ignored)};
  }

  // Puts all remembered requests on the page. Programs that run at the same time may remember more
  // while this one writes: it looks again until nothing has changed. So the page that is written
  // last has all of them.
  void complete_page() {
    for (bool changed = true; changed;) {
      changed = false;
      const RememberedRequests remembered = remembered_requests(store_);
      for (const std::string& why : remembered.unreadable) {
        name_missing(why);
      }
      for (const auto& [key, request] : remembered.all) {
        changed |= !is_shown(key, request) && show_remembered(key, request);
      }
      write_page();
    }
  }

  bool is_shown(const std::string& key, const PlanRequest& request) const {
    const auto found = on_page_.find(key);
    return pinned_.contains(key) ||
           (found != on_page_.end() &&
            request_to_json(found->second.request) == request_to_json(request));
  }

  // False if it cannot be shown.
  bool show_remembered(const std::string& key, const PlanRequest& request) {
    try {
      show_stored(key, request);
      return true;
    } catch (const Error& error) {
      name_missing(fmt::format("{}: {}", request.name, error.what()));
      return false;
    }
  }

  void name_missing(const std::string& what_and_why) {
    if (named_.insert(what_and_why).second) {
      observer_.not_on_page(what_and_why);
    }
  }

  // An existing page stays if this one would be empty.
  void write_page() {
    std::vector<const PagePlan*> plans;
    const std::vector<Section> kept = kept_sections(options_.folder);
    outcome_.has_page = !kept.empty();
    for (const auto& [key, one] : on_page_) {
      plans.push_back(&one);
      outcome_.has_page |= !one.section.tables.empty() || !one.section.pictures.empty();
    }
    if (!outcome_.has_page) {
      return;
    }
    const std::vector<std::string>& paper = paper_plans();
    std::ranges::stable_sort(plans, {}, [&](const PagePlan* one) {
      return std::ranges::find(paper, one->request.name) - paper.begin();
    });
    std::vector<Section> sections;
    std::vector<ResultRow> rows;
    for (const PagePlan* one : plans) {
      sections.push_back(one->section);
      rows.insert(rows.end(), one->section.results.begin(), one->section.results.end());
    }
    sections.insert(sections.end(), kept.begin(), kept.end());
    write_file(options_.folder / "results.csv", results_csv(rows));
    write_file(options_.folder / "report.html",
               html_page("mcnb: results", sections, options_.folder,
                         page_facts(options_.command, plans, store_)));
  }

  // Runs a plan, or finds its finished runs, and makes its section.
  Section make_section_of(const Plan& plan, const PlanRequest& request, bool stored_only,
                          ReportOutcome& outcome) {
    std::vector<std::string> notes;
    std::vector<Study> studies = playable(plan, stored_only, notes);
    Section section{.name = plan.name, .title = plan.title};
    if (studies.empty()) {
      notes.push_back("the data of no environment is here");
      ++outcome.without_data;
    } else {
      if (plan.axis && plan.axis->of_environment && request.settings.contains(plan.axis->option)) {
        notes.push_back(fmt::format("--set {} is ignored, because the plan's axis sets this option",
                                    plan.axis->option));
      }
      if (request.tune && plan.tuning.grids.empty()) {
        notes.push_back("nothing is tuned: the plan has no grid");
      }
      PlanReport report = report_plan(plan, std::move(studies), store_,
                                      options_of(plan, request, stored_only), observer_);
      outcome.missing += report.results.missing;
      outcome.failed += report.results.failed;
      outcome.interrupted = report.interrupted;
      if (outcome.interrupted) {
        return section;
      }
      section = std::move(*report.section);
    }
    section.settings = without_folders(settings_of(plan));
    section.notes.insert(section.notes.end(), notes.begin(), notes.end());
    hide_folders(section);
    return section;
  }

  PlanReportOptions options_of(const Plan& plan, const PlanRequest& request,
                               bool stored_only) const {
    return {.run = {.cells = {.threads = options_.jobs.value_or(plan.options.threads),
                              .fresh = options_.fresh,
                              .stored_only = stored_only,
                              .device = options_.device},
                    .tune = request.tune},
            .folder = options_.folder / plan.name};
  }

  // Leaves out environments without data on this machine. A report of finished runs does not need
  // the data.
  std::vector<Study> playable(const Plan& plan, bool stored_only, std::vector<std::string>& notes) {
    std::vector<Study> all;
    Plan one = plan;
    for (const std::string& environment : plan.environments) {
      one.environments = {environment};
      try {
        std::vector<Study> studies = studies_of(one, options_.data);
        for (const Study& study : studies) {
          if (!stored_only || !store_.has_any_of(study.experiment.environment.name)) {
            source_text(study.experiment.environment);
          }
        }
        all.insert(all.end(), studies.begin(), studies.end());
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kInput) {
          throw;
        }
        observer_.environment_left_out(environment, error.what());
        notes.push_back(
            fmt::format("{} is left out: {}", environment, first_sentence(error.what())));
      }
    }
    return all;
  }

  const CellStore& store_;
  const ReportOptions& options_;
  ReportObserver& observer_;
  ReportOutcome outcome_;
  std::map<std::string, PagePlan> on_page_;  // by page_key
  std::set<std::string> pinned_;             // keys whose section must not be replaced
  std::set<std::string> named_;              // what the observer knows to be missing
};

}  // namespace

ReportOutcome make_report(const std::vector<PlanRequest>& requests, const CellStore& store,
                          const ReportOptions& options, ReportObserver& observer) {
  return ReportMaker(store, options, observer).make(requests);
}

}  // namespace mcnb
