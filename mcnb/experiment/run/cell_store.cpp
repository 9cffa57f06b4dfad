#include "mcnb/experiment/run/cell_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/experiment/run/experiment_policies.h"
#include "mcnb/storage/postgres.h"

namespace mcnb {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 2;
constexpr std::size_t kMergedAtOnce = 1000;           // rows
constexpr const char* kFailure = "failure";           // the field of a cell that failed: why
constexpr std::string_view kOldFailure = "failed: ";  // began failures before they were JSON

Json to_json(const CellResult& result) {
  Json curve{{"round", Json::array()}, {"regret", Json::array()}};
  for (const RegretPoint& point : result.curve) {
    curve["round"].push_back(point.round);
    curve["regret"].push_back(point.regret);
  }
  Json quality{{"round", Json::array()},
               {"precision", Json::array()},
               {"recall", Json::array()},
               {"adjusted_rand", Json::array()}};
  for (const QualityPoint& point : result.quality) {
    quality["round"].push_back(point.round);
    quality["precision"].push_back(point.quality.precision);
    quality["recall"].push_back(point.quality.recall);
    quality["adjusted_rand"].push_back(point.quality.adjusted_rand);
  }
  Json json{{"policy", result.policy},
            {"seed", result.seed},
            {"rounds", result.rounds},
            {"regret", result.regret},
            {"reward", result.reward},
            {"seconds", result.seconds},
            {"training_steps", result.steps.training},
            {"adaptation_steps", result.steps.adaptation},
            {"memory_bytes", result.memory_bytes},
            {"curve", std::move(curve)},
            {"quality", std::move(quality)}};
  if (result.parts) {
    json["part_seconds"] = {{"clustering", result.parts->clustering},
                            {"adaptation", result.parts->adaptation},
                            {"training", result.parts->training}};
  }
  return json;
}

CellResult from_json(const Json& json) {
  CellResult result{.policy = json.at("policy"),
                    .seed = json.at("seed"),
                    .rounds = json.at("rounds"),
                    .regret = json.at("regret"),
                    .reward = json.at("reward"),
                    .seconds = json.at("seconds"),
                    .steps = {json.at("training_steps"), json.at("adaptation_steps")},
                    .memory_bytes = json.at("memory_bytes")};
  if (const auto parts = json.find("part_seconds"); parts != json.end()) {
    result.parts =
        PartSeconds{parts->at("clustering"), parts->at("adaptation"), parts->at("training")};
  }
  const Json& curve = json.at("curve");
  for (std::size_t i = 0; i < curve.at("round").size(); ++i) {
    result.curve.push_back({curve.at("round").at(i), curve.at("regret").at(i)});
  }
  const Json& quality = json.at("quality");
  for (std::size_t i = 0; i < quality.at("round").size(); ++i) {
    result.quality.push_back({quality.at("round").at(i),
                              {quality.at("precision").at(i), quality.at("recall").at(i),
                               quality.at("adjusted_rand").at(i)}});
  }
  return result;
}

// What the store has about a cell: its result, or why it failed. Neither if the text is damaged:
// the cell is then run again.
struct Entry {
  std::optional<StoredCell> cell;
  std::optional<std::string> failure;
};

Entry read_entry(const std::string& text, const std::string& program, const std::string& label) {
  if (text.starts_with(kOldFailure)) {
    return {.cell = {}, .failure = text.substr(kOldFailure.size())};
  }
  try {
    const Json json = Json::parse(text);
    if (const auto why = json.find(kFailure); why != json.end()) {
      return {.cell = {}, .failure = why->get<std::string>()};
    }
    StoredCell cell{from_json(json), {program, json.value("machine", ""), json.value("date", "")}};
    cell.result.policy = label;  // equal options may have been written differently
    return {.cell = std::move(cell), .failure = {}};
  } catch (const Json::exception&) {
    return {};
  }
}

// What a cell plays, without program and data.
Json description(const Cell& cell) {
  return {{"format", kFormat},
          {"environment", cell.environment.name},
          {"environment_options", all_options(cell.environment)},
          {"policy", cell.policy.name},
          {"policy_options",
           cell.policy.name == kOracle ? OptionValues() : resolved_options(cell.policy)},
          {"seed", cell.seed},
          {"rounds", cell.rounds}};
}

// Adds the options that the policy did not have yet when the cell was stored. Returns whether there
// are any.
bool complete(Json& what) {
  PolicySpec stored{.name = what["policy"], .options = {}, .label = {}};
  complete_options(stored);
  bool is_changed = false;
  for (const auto& [name, value] : stored.options) {
    is_changed = what["policy_options"].emplace(name, value).second || is_changed;
  }
  return is_changed;
}

// A description without options that have their default values. So runs of programs that did not
// yet know all of today's options are found.
Json unusual(Json what) {
  what.erase("program");
  what.erase("environment_sources");
  const auto strip = [&](const char* field, const OptionValues& standard) {
    for (const auto& [name, value] : standard) {
      Json& options = what[field];
      if (const auto found = options.find(name); found != options.end() && *found == value) {
        options.erase(found);
      }
    }
  };
  try {
    strip("environment_options", all_options({.name = what["environment"], .options = {}}));
    if (what["policy"] != kOracle) {
      strip("policy_options", resolved_options({.name = what["policy"]}));
    }
  } catch (const Error&) {  // of a policy or environment that no longer exists
  }
  return what;
}

// The environment with its options.
std::string world_of(const Json& what) {
  return Json{what.at("environment"), what.at("environment_options")}.dump();
}

}  // namespace

std::string cell_key(const Cell& cell, const std::string& program) {
  Json key = description(cell);
  key["program"] = program;
  key["environment_sources"] = source_text(cell.environment);
  return key.dump();
}

std::string result_to_json(const CellResult& result) { return to_json(result).dump(); }

CellResult result_from_json(const std::string& text) {
  try {
    return from_json(Json::parse(text));
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kCorrupt, fmt::format("result of a cell: {}", error.what()));
  }
}

CellStore::CellStore(const std::string& where, std::string program, std::string machine)
    : name_(is_postgres_url(where) ? postgres_name(where) : where),
      program_(std::move(program)),
      machine_(std::move(machine)),
      table_(is_postgres_url(where) ? open_postgres_cells(where)
                                    : open_sqlite_cells(where, false)) {}

std::optional<std::string> CellStore::find_text(const Cell& cell) const {
  return table_->find(cell_key(cell, program_));
}

CellRow CellStore::row_of(const Cell& cell) const {
  return {.key = cell_key(cell, program_),
          .environment = cell.environment.name,
          .policy = cell.policy.label,
          .seed = static_cast<std::int64_t>(cell.seed),
          .rounds = static_cast<std::int64_t>(cell.rounds),
          .result = {}};
}

CellRow CellStore::row_of(const Cell& cell, const CellResult& result) const {
  Json json = to_json(result);
  const Origin here = origin();
  json["machine"] = here.machine;
  json["date"] = here.date;
  CellRow row = row_of(cell);
  row.result = json.dump();
  return row;
}

CellRow CellStore::failure_row(const Cell& cell, const std::string& why) const {
  CellRow row = row_of(cell);
  row.result = Json{{kFailure, why}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  return row;
}

void CellStore::put(const CellRow& row) const {
  table_->put(row);
  const std::lock_guard lock(mutex_);
  is_indexed_ = false;
}

// Reads the keys of all cells, and counts the cells of each program and each data.
void CellStore::index_cells() const {
  candidates_.clear();
  programs_.clear();
  data_.clear();
  for (const std::string& key : table_->keys()) {
    Json what = Json::parse(key, nullptr, false);
    if (!what.is_object() || !what.contains("program") || !what.contains("environment_sources")) {
      continue;
    }
    const Candidate one{what["program"], what["environment_sources"], key, complete(what)};
    what = unusual(std::move(what));
    ++programs_[one.program];
    ++data_[world_of(what)][one.data];
    candidates_.emplace(what.dump(), one);
  }
  is_indexed_ = true;
}

std::optional<CellStore::Candidate> CellStore::best_candidate(const Cell& cell) const {
  if (const std::optional<Candidate> found = best_match(cell, false)) {
    return found;
  }
  // The policy as it was before the options that the cell does not set.
  Cell earlier = cell;
  complete_options(earlier.policy);
  return earlier.policy.options == cell.policy.options ? std::nullopt : best_match(earlier, true);
}

// The best cell of this description. With `lacks_options` only cells of programs that did not know
// all options of the policy count.
std::optional<CellStore::Candidate> CellStore::best_match(const Cell& cell,
                                                          bool lacks_options) const {
  const Json what = unusual(description(cell));
  std::optional<std::string> here;
  try {
    here = source_text(cell.environment);
  } catch (const Error&) {  // the data is not on this machine
  }
  const std::lock_guard lock(mutex_);
  if (!is_indexed_) {
    index_cells();
  }
  // All cells of an environment use one data: that of this machine, else that of most cells.
  const std::map<std::string, std::size_t>& known = data_[world_of(what)];
  std::string data = here.value_or("");
  if (!here || !known.contains(data)) {
    std::size_t most = 0;
    for (const auto& [other, cells] : known) {
      data = cells > most ? other : data;
      most = std::max(most, cells);
    }
  }
  std::optional<Candidate> best;
  const auto [first, last] = candidates_.equal_range(what.dump());
  for (auto found = first; found != last; ++found) {
    const Candidate& one = found->second;
    const bool is_better =
        !best || one.program == program_ ||
        (best->program != program_ && programs_[one.program] > programs_[best->program]);
    if (one.data == data && is_better && (one.lacks_options || !lacks_options)) {
      best = one;
    }
  }
  if (best) {
    best->is_other_data = here && data != *here;
  }
  return best;
}

std::optional<StoredCell> CellStore::find_any(const Cell& cell) const {
  const std::optional<Candidate> found = best_candidate(cell);
  const std::optional<std::string> text = found ? table_->find(found->key) : std::nullopt;
  if (!text) {
    return std::nullopt;
  }
  const char* data = found->is_other_data ? ", on data that is not on this machine" : "";
  return read_entry(*text, found->program + data, cell.policy.label).cell;
}

std::optional<std::string> CellStore::find_any_failure(const Cell& cell) const {
  const std::optional<Candidate> found = best_candidate(cell);
  const std::optional<std::string> text = found ? table_->find(found->key) : std::nullopt;
  return text ? read_entry(*text, found->program, cell.policy.label).failure : std::nullopt;
}

bool CellStore::has_any_of(const std::string& environment) const {
  return table_->has_environment(environment);
}

std::optional<StoredCell> CellStore::find(const Cell& cell) const {
  const std::optional<std::string> text = find_text(cell);
  return text ? read_entry(*text, program_, cell.policy.label).cell : std::nullopt;
}

Origin CellStore::origin() const {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char day[16];
  return {program_, machine_, {day, std::strftime(day, sizeof day, "%Y-%m-%d", &parts)}};
}

void CellStore::save(const Cell& cell, const CellResult& result) const {
  put(row_of(cell, result));
}

std::optional<std::string> CellStore::find_failure(const Cell& cell) const {
  const std::optional<std::string> text = find_text(cell);
  return text ? read_entry(*text, program_, cell.policy.label).failure : std::nullopt;
}

void CellStore::save_failure(const Cell& cell, const std::string& why) const {
  put(failure_row(cell, why));
}

void CellStore::keep_text(const std::string& name, const std::string& text) const {
  table_->change_text(name, [&](const std::optional<std::string>&) { return text; });
}

void CellStore::change_text(
    const std::string& name,
    const std::function<std::string(const std::optional<std::string>&)>& change) const {
  table_->change_text(name, change);
}

std::map<std::string, std::string> CellStore::kept_texts() const { return table_->texts(); }

void CellStore::expect_results(const std::string& where) {
  if (is_postgres_url(where)) {
    open_postgres_cells(where);
  } else {
    open_sqlite_cells(where, true);
  }
}

std::size_t CellStore::merge(const std::string& other) const {
  const std::unique_ptr<CellTable> from =
      is_postgres_url(other) ? open_postgres_cells(other) : open_sqlite_cells(other, true);
  std::size_t added = 0;
  std::vector<CellRow> rows;
  const auto add = [&] {
    added += table_->add(rows);
    rows.clear();
  };
  from->visit([&](const CellRow& row) {
    rows.push_back(row);
    if (rows.size() == kMergedAtOnce) {
      add();
    }
  });
  add();
  for (const auto& [name, text] : from->texts()) {
    table_->change_text(name, [&text = text](const std::optional<std::string>& before) {
      return before.value_or(text);
    });
  }
  const std::lock_guard lock(mutex_);
  is_indexed_ = false;
  return added;
}

std::size_t CellStore::size() const { return table_->size(); }

}  // namespace mcnb
