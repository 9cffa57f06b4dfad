#include "mcnb/experiment/cell_store.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "mcnb/base/error.h"
#include "mcnb/base/table.h"

namespace mcnb {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 2;

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
              {"policy_options", cell.policy.options},
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

CellStore::CellStore(std::filesystem::path folder, std::string program)
    : folder_(std::move(folder)), program_(std::move(program)) {
  const std::filesystem::path probe = folder_ / "probe";
  write_text_file(probe, "");
  std::error_code ignored;
  std::filesystem::remove(probe, ignored);
}

std::filesystem::path CellStore::path_of(const Cell& cell) const {
  const std::string key = cell_key(cell, program_);
  std::string name = cell.policy.name;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return folder_ / fmt::format("{}-seed{}-{:016x}.json", name, cell.seed,
                               XXH3_64bits(key.data(), key.size()));
}

std::optional<CellResult> CellStore::find(const Cell& cell) const {
  std::ifstream file(path_of(cell), std::ios::binary);
  if (!file) {
    return std::nullopt;
  }
  const std::string text(std::istreambuf_iterator<char>(file), {});
  try {
    const Json json = Json::parse(text);
    if (json.at("key") != cell_key(cell, program_)) {
      return std::nullopt;
    }
    CellResult result = from_json(json.at("result"));
    result.policy = cell.policy.label;  // the same options may have been written differently
    return result;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void CellStore::save(const Cell& cell, const CellResult& result) const {
  const Json json{{"key", cell_key(cell, program_)}, {"result", to_json(result)}};
  write_text_file(path_of(cell), json.dump() + "\n");
}

}  // namespace mcnb
