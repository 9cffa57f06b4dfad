// JSON lines of our own shape: one round a line (docs/EVALUATION.md).

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "mcnb/evaluate/readers/line_readers.h"
#include "mcnb/logs/timestamps.h"

namespace mcnb {
namespace {

using json::Element;
using json::Object;

constexpr std::array<std::string_view, 15> kMembers = {
    "event",       "user",         "time",          "slot",     "slots",
    "slotId",      "slotFeatures", "context",       "actions",  "chosen",
    "probability", "reward",       "defaultReward", "excluded", "dropProbability"};
constexpr std::array<std::string_view, 4> kActionMembers = {"id", "features", "probability",
                                                            "eligible"};

template <class Known>
void refuse_unknown(const Object& object, const Known& known, const char* what) {
  for (const auto member : object) {
    if (std::ranges::find(known, member.key) == known.end()) {
      throw RowError{fmt::format("{}: unknown member {}", what, shown(member.key))};
    }
  }
}

std::string features_of(const Element& value, const char* name) {
  if (!value.is_object() && !value.is_array()) {
    refuse_field(name, "an object or an array of numbers", simdjson::minify(value));
  }
  return simdjson::minify(value);
}

// A text, or a number as a text.
std::string id_of(const Element& value, const char* name) {
  return value.is<std::int64_t>() ? simdjson::minify(value) : json::text_of(value, name);
}

void read_actions(const Object& line, LoggedRound& round) {
  std::size_t with_probability = 0;
  for (const Element element : json::array_of(json::need(line, "actions"), "actions")) {
    RoundAction& action = round.actions.emplace_back();
    round.probabilities.push_back(0.0);
    round.eligible.push_back(true);
    if (!element.is_object()) {  // only the id
      action.id = id_of(element, "actions");
      continue;
    }
    const Object members = json::object_of(element, "actions");
    refuse_unknown(members, kActionMembers, "actions");
    if (const auto id = json::find(members, "id")) {
      action.id = id_of(*id, "id");
    }
    if (const auto features = json::find(members, "features")) {
      action.features = features_of(*features, "features");
    }
    if (const auto probability = json::find(members, "probability")) {
      round.probabilities.back() = json::number_of(*probability, "probability");
      ++with_probability;
    }
    if (const auto eligible = json::find(members, "eligible")) {
      round.eligible.back() = json::flag_of(*eligible, "eligible");
    }
  }
  if (with_probability != 0 && with_probability != round.actions.size()) {
    throw RowError{"actions: expected a probability for all of them or for none"};
  }
  if (with_probability == 0) {
    round.probabilities.clear();
  }
  if (std::ranges::count(round.eligible, false) == 0) {
    round.eligible.clear();
  }
}

// The chosen action is given by its index or by its id.
void read_choice(const Object& line, LoggedRound& round) {
  const Element chosen = json::need(line, "chosen");
  if (chosen.is_string()) {
    const std::string id = json::text_of(chosen, "chosen");
    const auto found = std::ranges::find(round.actions, id, &RoundAction::id);
    if (found == round.actions.end()) {
      refuse_field("chosen", "the id of one of the actions", id);
    }
    round.chosen = static_cast<std::uint32_t>(found - round.actions.begin());
  } else {
    round.chosen = json::index_of(chosen, "chosen");
  }
  if (const auto probability = json::find(line, "probability")) {
    round.probability = json::number_of(*probability, "probability");
  } else if (!round.probabilities.empty() && round.chosen < round.probabilities.size()) {
    round.probability = round.probabilities[round.chosen];
  } else {
    json::need(line, "probability");
  }
}

void read_outcome(const Object& line, LoggedRound& round) {
  if (const auto reward = json::find(line, "reward")) {
    round.reward = json::number_of(*reward, "reward");
  }
  if (const auto unobserved = json::find(line, "defaultReward")) {
    round.default_reward = json::flag_of(*unobserved, "defaultReward");
  }
  if (const auto excluded = json::find(line, "excluded")) {
    round.excluded = json::flag_of(*excluded, "excluded");
  }
  if (const auto drop = json::find(line, "dropProbability")) {
    round.drop_probability = json::number_of(*drop, "dropProbability");
  }
}

void read_names(const Object& line, LoggedRound& round) {
  if (const auto event = json::find(line, "event")) {
    round.event = id_of(*event, "event");
  }
  if (const auto user = json::find(line, "user")) {
    round.user = id_of(*user, "user");
  }
  if (const auto time = json::find(line, "time")) {
    const std::string text = json::text_of(*time, "time");
    round.time = parse_time(text);
    if (!round.time) {
      refuse_field("time", "a time such as 2021-02-04T16:31:29.246Z", text);
    }
  }
  if (const auto slot = json::find(line, "slot")) {
    round.slot = json::index_of(*slot, "slot");
  }
  if (const auto slots = json::find(line, "slots")) {
    round.slots = json::index_of(*slots, "slots");
  }
  if (const auto id = json::find(line, "slotId")) {
    round.slot_id = json::text_of(*id, "slotId");
  }
  if (const auto features = json::find(line, "slotFeatures")) {
    round.slot_features = features_of(*features, "slotFeatures");
  }
  if (const auto context = json::find(line, "context")) {
    json::object_of(*context, "context");
    round.context = simdjson::minify(*context);
  }
}

class JsonLinesReader : public LineReader {
 public:
  void read(std::string_view line, const VisitRound& visit, const LeaveOut&) override {
    read_json_round(json::parse_line(parser_, line), round_);
    visit(round_);
  }

 private:
  simdjson::dom::parser parser_;
  LoggedRound round_;
};

}  // namespace

void read_json_round(const Object& line, LoggedRound& round) {
  refuse_unknown(line, kMembers, "line");
  round = {};
  read_names(line, round);
  read_actions(line, round);
  read_choice(line, round);
  read_outcome(line, round);
  check_logged_round(round);
}

std::unique_ptr<LineReader> make_json_lines_reader() { return std::make_unique<JsonLinesReader>(); }

}  // namespace mcnb
