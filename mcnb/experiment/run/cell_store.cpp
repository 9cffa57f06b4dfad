#include "mcnb/experiment/run/cell_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/files.h"
#include "mcnb/experiment/run/experiment_policies.h"

namespace mcnb {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 2;
constexpr std::int64_t kApplication = 1296256578;     // "MCNB"
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

// What the file has about a cell: its result, or why it failed. Neither if the text is damaged: the
// cell is then run again.
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

std::string failure_text(const std::string& why) {
  return Json{{kFailure, why}}.dump(-1, ' ', false, Json::error_handler_t::replace);
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

// Calls `body` in one transaction, which an exception undoes.
template <class Body>
void in_transaction(Database& database, const Body& body) {
  database.run("BEGIN IMMEDIATE");
  try {
    body();
    database.run("COMMIT");
  } catch (...) {
    database.run("ROLLBACK");
    throw;
  }
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

CellStore::CellStore(const std::filesystem::path& path, std::string program, std::string machine)
    : path_(path), program_(std::move(program)), machine_(std::move(machine)) {
  if (path.has_parent_path()) {
    make_folder(path.parent_path());
  }
  database_ = std::make_unique<Database>(path, Database::Access::kCreate);
  database_->run("BEGIN IMMEDIATE");  // only one of several programs makes the tables
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
  database_->use_wal();
  database_->run("PRAGMA synchronous = FULL");
  // A read-only file fails here, not after the first cell.
  database_->run(
      "CREATE TABLE IF NOT EXISTS texts(name TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID;"
      "BEGIN IMMEDIATE; ROLLBACK");
}

// The stored text of a result or a failure.
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
  is_indexed_ = false;
}

// Reads the keys of all cells, and counts the cells of each program and each data.
void CellStore::index_cells() const {
  candidates_.clear();
  programs_.clear();
  data_.clear();
  Statement statement(*database_, "SELECT key FROM cells");
  while (statement.next()) {
    const std::string key(statement.bytes(0));
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
  const std::optional<std::string> text = found ? text_at(found->key) : std::nullopt;
  if (!text) {
    return std::nullopt;
  }
  const char* data = found->is_other_data ? ", on data that is not on this machine" : "";
  return read_entry(*text, found->program + data, cell.policy.label).cell;
}

std::optional<std::string> CellStore::find_any_failure(const Cell& cell) const {
  const std::optional<Candidate> found = best_candidate(cell);
  const std::optional<std::string> text = found ? text_at(found->key) : std::nullopt;
  return text ? read_entry(*text, found->program, cell.policy.label).failure : std::nullopt;
}

bool CellStore::has_any_of(const std::string& environment) const {
  const std::lock_guard lock(mutex_);
  Statement statement(*database_, "SELECT 1 FROM cells WHERE environment = ?1 LIMIT 1");
  return statement.bind(1, std::string_view(environment)).next();
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
  Json json = to_json(result);
  const Origin here = origin();
  json["machine"] = here.machine;
  json["date"] = here.date;
  save_text(cell, json.dump());
}

std::optional<std::string> CellStore::find_failure(const Cell& cell) const {
  const std::optional<std::string> text = find_text(cell);
  return text ? read_entry(*text, program_, cell.policy.label).failure : std::nullopt;
}

void CellStore::save_failure(const Cell& cell, const std::string& why) const {
  save_text(cell, failure_text(why));
}

void CellStore::keep_text(const std::string& name, const std::string& text) const {
  const std::lock_guard lock(mutex_);
  Statement(*database_, "INSERT OR REPLACE INTO texts VALUES(?1, ?2)")
      .bind(1, std::string_view(name))
      .bind(2, std::string_view(text))
      .finish();
}

void CellStore::change_text(
    const std::string& name,
    const std::function<std::string(const std::optional<std::string>&)>& change) const {
  const std::lock_guard lock(mutex_);
  in_transaction(*database_, [&] {
    Statement read(*database_, "SELECT text FROM texts WHERE name = ?1");
    std::optional<std::string> before;
    if (read.bind(1, std::string_view(name)).next()) {
      before = std::string(read.bytes(0));
    }
    read.reset();
    const std::string text = change(before);
    Statement(*database_, "INSERT OR REPLACE INTO texts VALUES(?1, ?2)")
        .bind(1, std::string_view(name))
        .bind(2, std::string_view(text))
        .finish();
  });
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
  in_transaction(*database_, [&] {
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
  });
  is_indexed_ = false;
  return static_cast<std::size_t>(database_->number("SELECT count(*) FROM cells") - before);
}

std::size_t CellStore::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(database_->number("SELECT count(*) FROM cells"));
}

}  // namespace mcnb
