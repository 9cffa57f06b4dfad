#include "mcnb/experiment/plan/rank_memory.h"

#include <fmt/core.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "mcnb/experiment/plan/plan.h"

namespace mcnb {
namespace {

using RankJson = nlohmann::json;

// What was found, and by which program with which data.
struct KeptRanks {
  std::string made_by;
  std::vector<RankAgreement> results;
};

// Programs before the JSON format wrote one line for made_by, then one line for each value.
KeptRanks read_old_ranks(const std::string& text) {
  KeptRanks kept;
  std::istringstream lines(text);
  std::getline(lines, kept.made_by);
  for (RankAgreement one; lines >> one.correlation >> one.same_choice >> one.value;) {
    kept.results.push_back(one);
  }
  return kept;
}

// Empty if the text is damaged: the ranks are then compared again.
KeptRanks read_ranks(const std::string& text) {
  KeptRanks kept;
  try {
    const RankJson json = RankJson::parse(text);
    kept.made_by = json.at("made_by");
    for (const RankJson& one : json.at("ranks")) {
      kept.results.push_back({one.at("value"), one.at("correlation"), one.at("same_choice")});
    }
  } catch (const RankJson::exception&) {
    return {};
  }
  return kept;
}

}  // namespace

RankMemory::RankMemory(const CellStore& store, const Experiment& experiment,
                       const std::vector<PolicySpec>& policies)
    : store_(store), experiment_(experiment) {
  const PolicySpec environment{.name = experiment.environment.name,
                               .options = all_options(experiment.environment)};
  description_ = fmt::format("{} {} {} {}", written(environment), experiment.options.rounds,
                             kRankStride, experiment.options.first_seed);
  for (const PolicySpec& policy : policies) {
    description_ += " " + written(policy);
  }
}

std::string RankMemory::program_and_data() const {
  return fmt::format("{} {}", store_.program(), source_text(experiment_.environment));
}

std::vector<RankAgreement> RankMemory::find(bool of_any_program) const {
  const std::map<std::string, std::string> texts = store_.kept_texts();
  KeptRanks kept;
  if (const auto found = texts.find("ranks " + description_); found != texts.end()) {
    kept = read_ranks(found->second);
  } else if (const auto old = texts.find("order " + description_); old != texts.end()) {
    kept = read_old_ranks(old->second);
  }
  const bool is_wanted = of_any_program || kept.made_by == program_and_data();
  return is_wanted ? kept.results : std::vector<RankAgreement>();
}

void RankMemory::keep(const std::vector<RankAgreement>& results) const {
  RankJson json{{"made_by", program_and_data()}, {"ranks", RankJson::array()}};
  for (const RankAgreement& one : results) {
    json["ranks"].push_back(
        {{"value", one.value}, {"correlation", one.correlation}, {"same_choice", one.same_choice}});
  }
  store_.keep_text("ranks " + description_, json.dump());
}

}  // namespace mcnb
