#include "mcnb/experiment/cell_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/table.h"
#include "mcnb/experiment/experiment_policies.h"

namespace mcnb {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 2;
constexpr std::int64_t kApplication = 1296256578;  // "MCNB"
constexpr std::string_view kFailed = "failed: ";   // no JSON begins so

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
  return {{"policy", result.policy},
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

// A result as a cell of a file has it, with where it was made.
StoredCell stored_cell(const std::string& text, std::string program) {
  try {
    const Json json = Json::parse(text);
    return {from_json(json),
            {std::move(program), json.value("machine", ""), json.value("date", "")}};
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kCorrupt, fmt::format("result of a cell: {}", error.what()));
  }
}

// Nothing where the text is damaged: the cell is then run again.
std::optional<StoredCell> readable(const std::string& text, std::string program,
                                   const std::string& label) {
  try {
    StoredCell cell = stored_cell(text, std::move(program));
    cell.result.policy = label;  // the same options may have been written differently
    return cell;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// What is played, whatever the program and the data.
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

// What is played, without the options that are as always: programs that do not know all of today's
// played with these.
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
  } catch (const Error&) {  // a policy or environment that is no more: nobody asks for it
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

CellResult result_from_json(const std::string& text) { return stored_cell(text, "").result; }

CellStore::CellStore(const std::filesystem::path& path, std::string program, std::string machine)
    : path_(path), program_(std::move(program)), machine_(std::move(machine)) {
  if (path.has_parent_path()) {
    make_folder(path.parent_path());
  }
  database_ = std::make_unique<Database>(path, Database::Access::kCreate);
  database_->run("BEGIN IMMEDIATE");  // of several that make the file one is the first
  const std::int64_t kind = database_->number("PRAGMA application_id");
  if (kind == 0 && database_->number("SELECT count(*) FROM sqlite_schema") == 0) {
    database_->run(
        "CREATE TABLE IF NOT EXISTS cells(key TEXT PRIMARY KEY, environment TEXT, policy TEXT,"
        " seed INTEGER, rounds INTEGER, result TEXT) WITHOUT ROWID;"
        "PRAGMA application_id = 1296256578");
  } else if (kind != kApplication) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: expected results of mcnb, found another database", path.string()));
  }
  database_->run("COMMIT");
  database_->keep_log();
  database_->run("PRAGMA synchronous = FULL");
  // A file that can only be read fails here, not after the first cell.
  database_->run(
      "CREATE TABLE IF NOT EXISTS texts(name TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID;"
      "BEGIN IMMEDIATE; ROLLBACK");
}

// A result, or a failure, as it is kept.
std::optional<std::string> CellStore::find_text(const Cell& cell) const {
  return text_at(cell_key(cell, program_));
}

std::optional<std::string> CellStore::text_at(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  Statement statement(*database_, "SELECT result FROM cells WHERE key = ?1");
  if (!statement.bind(1, std::string_view(key)).next()) {
    return std::nullopt;
  }
  return std::string(statement.bytes(0));
}

void CellStore::save_text(const Cell& cell, const std::string& text) const {
  const std::string key = cell_key(cell, program_);
  const std::lock_guard lock(mutex_);
  Statement(*database_, "INSERT OR REPLACE INTO cells VALUES(?1, ?2, ?3, ?4, ?5, ?6)")
      .bind(1, std::string_view(key))
      .bind(2, std::string_view(cell.environment.name))
      .bind(3, std::string_view(cell.policy.label))
      .bind(4, static_cast<std::int64_t>(cell.seed))
      .bind(5, static_cast<std::int64_t>(cell.rounds))
      .bind(6, std::string_view(text))
      .finish();
  knows_places_ = false;
}

// All cells of the file, by what they are, and how many there are of each program and data.
void CellStore::find_places() const {
  places_.clear();
  programs_.clear();
  data_.clear();
  Statement statement(*database_, "SELECT key FROM cells");
  while (statement.next()) {
    const std::string key(statement.bytes(0));
    Json what = Json::parse(key, nullptr, false);
    if (!what.is_object() || !what.contains("program") || !what.contains("environment_sources")) {
      continue;
    }
    const Place place{what["program"], what["environment_sources"], key};
    what = unusual(std::move(what));
    ++programs_[place.program];
    ++data_[world_of(what)][place.data];
    places_.emplace(what.dump(), place);
  }
  knows_places_ = true;
}

std::optional<CellStore::Place> CellStore::find_place(const Cell& cell) const {
  const Json what = unusual(description(cell));
  std::optional<std::string> here;
  try {
    here = source_text(cell.environment);
  } catch (const Error&) {  // the data is gone
  }
  const std::lock_guard lock(mutex_);
  if (!knows_places_) {
    find_places();
  }
  // All cells of a world have the same data: what is here, or else what most have.
  const std::map<std::string, std::size_t>& known = data_[world_of(what)];
  std::string data = here.value_or("");
  if (!here || !known.contains(data)) {
    std::size_t most = 0;
    for (const auto& [other, cells] : known) {
      data = cells > most ? other : data;
      most = std::max(most, cells);
    }
  }
  std::optional<Place> best;
  const auto [first, last] = places_.equal_range(what.dump());
  for (auto found = first; found != last; ++found) {
    const Place& place = found->second;
    const bool is_better =
        !best || place.program == program_ ||
        (best->program != program_ && programs_[place.program] > programs_[best->program]);
    if (place.data == data && is_better) {
      best = place;
    }
  }
  if (best) {
    best->is_other_data = here && data != *here;
  }
  return best;
}

std::optional<StoredCell> CellStore::find_any(const Cell& cell) const {
  const std::optional<Place> place = find_place(cell);
  const std::optional<std::string> text = place ? text_at(place->key) : std::nullopt;
  if (!text || text->starts_with(kFailed)) {
    return std::nullopt;
  }
  return readable(*text,
                  place->program + (place->is_other_data ? ", on other data than is here" : ""),
                  cell.policy.label);
}

std::optional<std::string> CellStore::find_any_failure(const Cell& cell) const {
  const std::optional<Place> place = find_place(cell);
  const std::optional<std::string> text = place ? text_at(place->key) : std::nullopt;
  return text && text->starts_with(kFailed) ? std::optional(text->substr(kFailed.size()))
                                            : std::nullopt;
}

bool CellStore::has_any_of(const std::string& environment) const {
  const std::lock_guard lock(mutex_);
  Statement statement(*database_, "SELECT 1 FROM cells WHERE environment = ?1 LIMIT 1");
  return statement.bind(1, std::string_view(environment)).next();
}

std::optional<StoredCell> CellStore::find(const Cell& cell) const {
  const std::optional<std::string> text = find_text(cell);
  if (!text || text->starts_with(kFailed)) {
    return std::nullopt;
  }
  return readable(*text, program_, cell.policy.label);
}

Origin CellStore::origin() const {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char day[16];
  return {program_, machine_, {day, std::strftime(day, sizeof day, "%Y-%m-%d", &parts)}};
}

void CellStore::save(const Cell& cell, const CellResult& result) const {
  Json json = to_json(result);
  const Origin here = origin();
  json["machine"] = here.machine;
  json["date"] = here.date;
  save_text(cell, json.dump());
}

std::optional<std::string> CellStore::find_failure(const Cell& cell) const {
  const std::optional<std::string> text = find_text(cell);
  if (!text || !text->starts_with(kFailed)) {
    return std::nullopt;
  }
  return text->substr(kFailed.size());
}

void CellStore::save_failure(const Cell& cell, const std::string& why) const {
  save_text(cell, std::string(kFailed) + why);
}

void CellStore::keep_text(const std::string& name, const std::string& text) const {
  const std::lock_guard lock(mutex_);
  Statement(*database_, "INSERT OR REPLACE INTO texts VALUES(?1, ?2)")
      .bind(1, std::string_view(name))
      .bind(2, std::string_view(text))
      .finish();
}

std::map<std::string, std::string> CellStore::kept_texts() const {
  const std::lock_guard lock(mutex_);
  Statement statement(*database_, "SELECT name, text FROM texts");
  std::map<std::string, std::string> texts;
  while (statement.next()) {
    texts.emplace(statement.bytes(0), statement.bytes(1));
  }
  return texts;
}

void CellStore::expect_results(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) {
    throw Error(ErrorKind::kInput, fmt::format("{}: there is no such file", path.string()));
  }
  Database look(path, Database::Access::kUntouched);
  if (look.number("PRAGMA application_id") != kApplication) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: expected results of mcnb, found something "
                                                 "else",
                                                 path.string()));
  }
}

std::size_t CellStore::merge(const std::filesystem::path& other) const {
  expect_results(other);
  Database from(other, Database::Access::kUntouched);
  const std::lock_guard lock(mutex_);
  const std::int64_t before = database_->number("SELECT count(*) FROM cells");
  database_->run("BEGIN IMMEDIATE");
  try {
    Statement cells(from, "SELECT key, environment, policy, seed, rounds, result FROM cells");
    Statement add_cell(*database_, "INSERT OR IGNORE INTO cells VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
    while (cells.next()) {
      add_cell.bind(1, cells.bytes(0)).bind(2, cells.bytes(1)).bind(3, cells.bytes(2));
      add_cell.bind(4, cells.number(3)).bind(5, cells.number(4)).bind(6, cells.bytes(5)).finish();
    }
    if (from.number("SELECT count(*) FROM sqlite_schema WHERE name = 'texts'") > 0) {
      Statement texts(from, "SELECT name, text FROM texts");
      Statement add_text(*database_, "INSERT OR IGNORE INTO texts VALUES(?1, ?2)");
      while (texts.next()) {
        add_text.bind(1, texts.bytes(0)).bind(2, texts.bytes(1)).finish();
      }
    }
    database_->run("COMMIT");
  } catch (...) {
    database_->run("ROLLBACK");
    throw;
  }
  knows_places_ = false;
  return static_cast<std::size_t>(database_->number("SELECT count(*) FROM cells") - before);
}

std::size_t CellStore::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(database_->number("SELECT count(*) FROM cells"));
}

}  // namespace mcnb
