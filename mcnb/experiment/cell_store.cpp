#include "mcnb/experiment/cell_store.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "mcnb/base/error.h"
#include "mcnb/experiment/contestants.h"

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

}  // namespace

std::string cell_key(const Cell& cell, const std::string& program) {
  return Json{{"format", kFormat},
              {"program", program},
              {"environment", cell.environment.name},
              {"environment_options", all_options(cell.environment)},
              {"environment_sources", source_text(cell.environment)},
              {"policy", cell.policy.name},
              {"policy_options",
               cell.policy.name == kOracle ? OptionValues() : resolved_options(cell.policy)},
              {"seed", cell.seed},
              {"rounds", cell.rounds}}
      .dump();
}

std::string result_to_json(const CellResult& result) { return to_json(result).dump(); }

CellResult result_from_json(const std::string& text) {
  try {
    return from_json(Json::parse(text));
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kCorrupt, fmt::format("result of a cell: {}", error.what()));
  }
}

CellStore::CellStore(const std::filesystem::path& path, std::string program)
    : path_(path), program_(std::move(program)) {
  std::error_code failed;
  if (path.has_parent_path()) {
    std::filesystem::create_directories(path.parent_path(), failed);
  }
  if (failed) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{}: cannot write: {}", path.string(), failed.message()));
  }
  database_ = std::make_unique<Database>(path, Database::Access::kCreate);
  database_->run("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  const std::int64_t kind = database_->number("PRAGMA application_id");
  if (kind == 0 && database_->number("SELECT count(*) FROM sqlite_schema") == 0) {
    database_->run(
        "BEGIN IMMEDIATE;"
        "CREATE TABLE IF NOT EXISTS cells(key TEXT PRIMARY KEY, environment TEXT, policy TEXT,"
        " seed INTEGER, rounds INTEGER, result TEXT) WITHOUT ROWID;"
        "PRAGMA application_id = 1296256578;"
        "COMMIT");
  } else if (kind != kApplication) {
    throw Error(ErrorKind::kCorrupt,
                fmt::format("{}: expected results of mcnb, found another database", path.string()));
  }
  // A file that can only be read fails here, not after the first cell.
  database_->run(
      "CREATE TABLE IF NOT EXISTS texts(name TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID;"
      "BEGIN IMMEDIATE; ROLLBACK");
}

// A result, or a failure, as it is kept.
std::optional<std::string> CellStore::find_text(const Cell& cell) const {
  const std::string key = cell_key(cell, program_);
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
}

std::optional<CellResult> CellStore::find(const Cell& cell) const {
  const std::optional<std::string> text = find_text(cell);
  if (!text || text->starts_with(kFailed)) {
    return std::nullopt;
  }
  CellResult result = result_from_json(*text);
  result.policy = cell.policy.label;  // the same options may have been written differently
  return result;
}

void CellStore::save(const Cell& cell, const CellResult& result) const {
  save_text(cell, result_to_json(result));
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

std::size_t CellStore::merge(const std::filesystem::path& other) const {
  if (!std::filesystem::exists(other)) {
    throw Error(ErrorKind::kInput, fmt::format("{}: there is no such file", other.string()));
  }
  {
    // Looked at before it is opened for good, which would make a database of any empty file.
    Database look(other, Database::Access::kReadOnly);
    if (look.number("PRAGMA application_id") != kApplication) {
      throw Error(ErrorKind::kCorrupt, fmt::format("{}: expected results of mcnb, found something "
                                                   "else",
                                                   other.string()));
    }
  }
  const CellStore from(other, program_);
  const std::lock_guard lock(mutex_);
  const std::string name = other.string();
  Statement(*database_, "ATTACH ?1 AS other").bind(1, std::string_view(name)).finish();
  const std::int64_t before = database_->number("SELECT count(*) FROM cells");
  database_->run(
      "INSERT OR IGNORE INTO cells SELECT * FROM other.cells;"
      "INSERT OR IGNORE INTO texts SELECT * FROM other.texts");
  database_->run("DETACH other");
  return static_cast<std::size_t>(database_->number("SELECT count(*) FROM cells") - before);
}

std::size_t CellStore::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(database_->number("SELECT count(*) FROM cells"));
}

}  // namespace mcnb
