#include "mcnb/experiment/report/request_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "mcnb/base/error.h"

namespace mcnb {
namespace {

using RequestJson = nlohmann::json;

constexpr std::string_view kRequest = "request ";  // begins the names of requests in the store
constexpr std::string_view kOldRequest = "plan ";  // before the JSON format

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    if (!part.empty()) {
      parts.push_back(part);
    }
  }
  return parts;
}

std::optional<std::uint64_t> old_count(const char* name, const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(parse_count(name, {0, 1e15}, text));
}

// Programs before the JSON format kept seven lines (name, environments, policies, rounds, seeds,
// first seed, "tune"), then settings, a command after "$ ", and the plan's text after "# the plan".
PlanRequest read_old_request(const std::string& text) {
  std::istringstream lines(text);
  std::string fields[7];
  for (std::string& field : fields) {
    std::getline(lines, field);
  }
  PlanRequest request{.name = fields[0],
                      .text = {},
                      .environments = split_list(fields[1]),
                      .policies = split_list(fields[2]),
                      .settings = {},
                      .rounds = old_count("rounds", fields[3]),
                      .seeds = old_count("seeds", fields[4]),
                      .first_seed = old_count("first_seed", fields[5]),
                      .tune = !fields[6].empty(),
                      .command = {}};
  for (std::string line; std::getline(lines, line);) {
    if (line == "# the plan") {
      request.text.assign(std::istreambuf_iterator<char>(lines), {});
    } else if (line.starts_with("$ ")) {
      request.command = line.substr(2);
    } else if (const std::size_t equals = line.find('='); equals != std::string::npos) {
      request.settings[line.substr(0, equals)] = line.substr(equals + 1);
    }
  }
  if (request.text.empty()) {
    throw Error(ErrorKind::kCorrupt,
                "kept by a version of mcnb that did not keep the plan's text; run it again by mcnb "
                "reproduce");
  }
  return request;
}

std::optional<PlanRequest> readable_request(const std::string& json) {
  try {
    return request_from_json(json);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void sort_as_in_paper(std::vector<RememberedRequest>& requests) {
  const std::vector<std::string>& paper = paper_plans();
  std::ranges::stable_sort(requests, {}, [&](const RememberedRequest& one) {
    return std::ranges::find(paper, one.request.name) - paper.begin();
  });
}

}  // namespace

std::string request_to_json(const PlanRequest& request) {
  RequestJson json{{"format", 1},
                   {"name", request.name},
                   {"environments", request.environments},
                   {"policies", request.policies},
                   {"settings", request.settings},
                   {"tune", request.tune},
                   {"command", request.command},
                   {"plan", request.text}};
  const auto add = [&](const char* name, const std::optional<std::uint64_t>& value) {
    if (value) {
      json[name] = *value;
    }
  };
  add("rounds", request.rounds);
  add("seeds", request.seeds);
  add("first_seed", request.first_seed);
  return json.dump();
}

PlanRequest request_from_json(const std::string& text) {
  try {
    const RequestJson json = RequestJson::parse(text);
    if (const int format = json.at("format"); format != 1) {
      throw Error(ErrorKind::kCorrupt,
                  fmt::format("expected a request of format 1, found format {}: a newer mcnb has "
                              "kept it",
                              format));
    }
    const auto count = [&](const char* name) {
      const auto found = json.find(name);
      return found == json.end() ? std::nullopt : std::optional(found->get<std::uint64_t>());
    };
    return {.name = json.at("name"),
            .text = json.at("plan"),
            .environments = json.at("environments"),
            .policies = json.at("policies"),
            .settings = json.at("settings"),
            .rounds = count("rounds"),
            .seeds = count("seeds"),
            .first_seed = count("first_seed"),
            .tune = json.at("tune"),
            .command = json.at("command")};
  } catch (const RequestJson::exception& error) {
    throw Error(ErrorKind::kCorrupt, fmt::format("expected a request as JSON: {}", error.what()));
  }
}

PlanRequest remember(const CellStore& store, const PlanRequest& request) {
  const std::string key = page_key(requested_plan(request));
  // A request from before the JSON format is under another name.
  std::optional<PlanRequest> old;
  for (const RememberedRequest& one : remembered_requests(store).all) {
    if (one.key == key) {
      old = one.request;
    }
  }
  PlanRequest whole = request;
  store.change_text(std::string(kRequest) + key, [&](const std::optional<std::string>& before) {
    const std::optional<PlanRequest> earlier = before ? readable_request(*before) : old;
    whole = earlier ? joined(request, *earlier) : request;
    return request_to_json(whole);
  });
  return whole;
}

RememberedRequests remembered_requests(const CellStore& store) {
  struct Choice {
    RememberedRequest request;
    int rank = -1;
  };
  RememberedRequests found;
  std::map<std::string, Choice> by_key;
  for (const auto& [name, text] : store.kept_texts()) {
    const bool is_json = name.starts_with(kRequest);
    if (!is_json && !name.starts_with(kOldRequest)) {
      continue;
    }
    try {
      const PlanRequest request = is_json ? request_from_json(text) : read_old_request(text);
      const std::string key = page_key(requested_plan(request));
      // Of several requests with one key, JSON is newer than the old format. Then the one kept
      // under its own key wins: a change of defaults gives plans other keys than they were kept
      // under.
      const std::string own_name = std::string(is_json ? kRequest : kOldRequest) + key;
      const int rank = (is_json ? 2 : 0) + (name == own_name ? 1 : 0);
      if (Choice& choice = by_key[key]; rank > choice.rank) {
        choice = {{key, request}, rank};
      }
    } catch (const Error& error) {
      found.unreadable.push_back(fmt::format("{}: {}", name, error.what()));
    }
  }
  for (auto& [key, choice] : by_key) {
    found.all.push_back(std::move(choice.request));
  }
  sort_as_in_paper(found.all);
  return found;
}

}  // namespace mcnb
