#include <algorithm>
#include <array>

#include "mcnb/experiment/report/figures.h"

namespace mcnb {
namespace {

// The parts of a round, in the order of the columns. Published lines have these labels.
constexpr std::array<const char*, 4> kParts = {"clustering", "adaptation", "training", "round"};
using Parts = std::array<std::optional<double>, kParts.size()>;  // seconds per round

// Mean over the seeds; nothing for parts that the policy does not measure.
Parts measured_parts(const std::vector<CellResult>& results) {
  Parts parts;
  const auto add = [&](std::size_t part, double seconds, const CellResult& result) {
    const double runs = static_cast<double>(results.size());
    parts[part] = parts[part].value_or(0.0) + seconds / static_cast<double>(result.rounds) / runs;
  };
  for (const CellResult& result : results) {
    add(3, result.seconds, result);
    if (std::ranges::all_of(results, [](const CellResult& one) { return one.parts.has_value(); })) {
      add(0, result.parts->clustering, result);
      add(1, result.parts->adaptation, result);
      add(2, result.parts->training, result);
    }
  }
  return parts;
}

Parts published_parts(const FigureInput& input, const ShownStudy& shown,
                      const SectionWriter& writer) {
  Parts parts;
  for (const PublishedLine& line : input.plan.published) {
    const auto part = std::ranges::find(kParts, line.label);
    const auto at = std::ranges::find(line.at, shown.study->at);
    if (part != kParts.end() && at != line.at.end() && writer.applies(line)) {
      parts[static_cast<std::size_t>(part - kParts.begin())] =
          line.values[static_cast<std::size_t>(at - line.at.begin())];
    }
  }
  return parts;
}

bool is_empty(const Parts& parts) {
  return std::ranges::none_of(parts, [](const auto& part) { return part.has_value(); });
}

}  // namespace

void add_breakdown_figure(const FigureInput& input, SectionWriter& writer) {
  const std::string option = input.plan.axis ? input.plan.axis->option : "";
  TextTable people(
      {"environment", "policy", "clustering ms", "adaptation ms", "training ms", "round ms"});
  TextTable machines({"environment", "settings", "option", "value", "policy", "rounds", "seeds",
                      "clustering_seconds", "adaptation_seconds", "training_seconds",
                      "round_seconds"});
  const auto add = [&](const ShownStudy& shown, const std::string& policy, const Parts& parts,
                       bool is_measured) {
    TableRow row{name_of(input.plan, shown), policy};
    TableRow cells{shown.name, shown.settings, option, shown.study->at, policy};
    cells.insert(cells.end(),
                 {is_measured ? writer.rounds() : "", is_measured ? writer.seeds() : ""});
    for (const std::optional<double>& part : parts) {
      row.push_back(part ? fmt::format("{:.3g}", 1000.0 * *part) : "-");
      cells.push_back(digits(part));
    }
    people.add_row(row);
    machines.add_row(cells);
  };
  for (const ShownStudy& shown : input.shown) {
    for (const PolicySummary& summary : shown.summaries) {
      add(shown, summary.policy, measured_parts(results_of(shown.results, summary.policy)), true);
    }
    if (const Parts paper = published_parts(input, shown, writer); !is_empty(paper)) {
      add(shown, "published", paper, false);
    }
  }
  if (people.row_count() > 0) {
    writer.add_table(
        file_of_all(input, "breakdown"),
        fmt::format("Milliseconds of one round and of its parts, mean over all rounds: {}. Every "
                    "run has one thread. A dash means that the policy does not measure its parts",
                    writer.extent()),
        std::move(people), machines);
  }
}

}  // namespace mcnb
