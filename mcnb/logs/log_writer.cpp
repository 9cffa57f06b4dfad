#include "mcnb/logs/log_writer.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/base/json_writer.h"
#include "mcnb/logs/timestamps.h"

namespace mcnb {
namespace {

// Begins an object with the members of a JSON object; the caller adds others and ends it.
void open_with_members(JsonWriter& json, const std::string& object) {
  json.begin_object();
  const std::size_t begin = object.find('{');
  const std::size_t end = object.rfind('}');
  if (begin == std::string::npos || end == std::string::npos) {
    return;
  }
  const std::string_view members = std::string_view(object).substr(begin + 1, end - begin - 1);
  if (members.find_first_not_of(" \t\r\n") != std::string_view::npos) {
    json.raw(members);
  }
}

class JsonLinesWriter : public LogWriter {
 public:
  explicit JsonLinesWriter(std::ostream& out) : out_(out) {}

  void write(const LoggedRound& round) override {
    JsonWriter json;
    json.begin_object();
    write_names(json, round);
    if (!round.context.empty()) {
      json.key("context").raw(round.context);
    }
    json.key("actions").begin_array();
    for (std::size_t i = 0; i < round.actions.size(); ++i) {
      json.begin_object().field("id", round.actions[i].id);
      if (!round.actions[i].features.empty()) {
        json.key("features").raw(round.actions[i].features);
      }
      if (!round.probabilities.empty()) {
        json.field("probability", round.probabilities[i]);
      }
      if (!round.is_eligible(i)) {
        json.field("eligible", false);
      }
      json.end_object();
    }
    json.end_array();
    json.field("chosen", round.chosen).field("probability", round.probability);
    write_outcome(json, round);
    json.end_object();
    out_ << json.text() << '\n';
  }

 private:
  static void write_names(JsonWriter& json, const LoggedRound& round) {
    if (!round.event.empty()) {
      json.field("event", round.event);
    }
    if (!round.user.empty()) {
      json.field("user", round.user);
    }
    if (round.time) {
      json.field("time", time_text(*round.time));
    }
    if (round.slot > 0 || round.slots > 1) {
      json.field("slot", round.slot).field("slots", round.slots);
    }
    if (!round.slot_id.empty()) {
      json.field("slotId", round.slot_id);
    }
    if (!round.slot_features.empty()) {
      json.key("slotFeatures").raw(round.slot_features);
    }
  }

  static void write_outcome(JsonWriter& json, const LoggedRound& round) {
    if (round.reward) {
      json.field("reward", *round.reward);
    }
    if (round.default_reward) {
      json.field("defaultReward", true);
    }
    if (round.excluded) {
      json.field("excluded", true);
    }
    if (round.drop_probability > 0.0) {
      json.field("dropProbability", round.drop_probability);
    }
  }

  std::ostream& out_;
};

// The eligible actions: the chosen one, then the others in their order.
std::vector<std::size_t> order_of(const LoggedRound& round) {
  std::vector<std::size_t> order(round.actions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return !round.is_eligible(i); });
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return (a == round.chosen) > (b == round.chosen);
  });
  return order;
}

class DsjsonWriter : public LogWriter {
 public:
  explicit DsjsonWriter(std::ostream& out) : out_(out) {}

  void write(const LoggedRound& round) override {
    if (round.probabilities.empty() && round.actions.size() > 1) {
      throw Error(ErrorKind::kInput,
                  "dsjson needs the probability of every action, but the log has only that of the "
                  "chosen one: export it as jsonl or csv");
    }
    if (round.slots == 1) {
      write_bandit(round);
      return;
    }
    if (round.slot != slots_.size()) {
      throw Error(ErrorKind::kInput,
                  fmt::format("event \"{}\": expected slot {} of {}, found slot {}", round.event,
                              slots_.size(), round.slots, round.slot));
    }
    slots_.push_back(round);
    if (slots_.size() == round.slots) {
      write_slots();
      slots_.clear();
    }
  }

  void finish() override {
    if (!slots_.empty()) {
      throw Error(ErrorKind::kInput,
                  fmt::format("event \"{}\": only {} of its {} slots are in the log",
                              slots_.front().event, slots_.size(), slots_.front().slots));
    }
  }

 private:
  static double reward_of(const LoggedRound& round) {
    if (!round.reward && !round.excluded) {
      throw Error(ErrorKind::kInput,
                  fmt::format("event \"{}\" has no reward, which dsjson cannot say: export the log "
                              "as jsonl or csv",
                              round.event));
    }
    return round.reward.value_or(0.0);
  }

  static void write_order(JsonWriter& json, const LoggedRound& round, const char* actions,
                          const char* probabilities, std::size_t base) {
    const std::vector<std::size_t> order = order_of(round);
    json.key(actions).begin_array();
    for (const std::size_t i : order) {
      json.value(i + base);
    }
    json.end_array().key(probabilities).begin_array();
    for (const std::size_t i : order) {
      json.value(round.probabilities.empty() ? round.probability : round.probabilities[i]);
    }
    json.end_array();
  }

  // "_user" is ours: Vowpal Wabbit ignores names that begin with an underscore.
  static void write_context(JsonWriter& json, const LoggedRound& round) {
    json.key("c");
    open_with_members(json, round.context);
    if (!round.user.empty()) {
      json.field("_user", round.user);
    }
    json.key("_multi").begin_array();
    for (const RoundAction& action : round.actions) {
      const bool hashed = action.features.starts_with('[');
      open_with_members(json, hashed ? "" : action.features);
      if (hashed) {
        json.key("hashed").raw(action.features);
      }
      if (!action.id.empty()) {
        json.field("_tag", action.id);
      }
      json.end_object();
    }
    json.end_array();
  }

  static void write_observations(JsonWriter& json, const char* name, const LoggedRound& round) {
    json.key(name).begin_array();
    if (!round.default_reward && round.reward) {
      json.begin_object().field("v", *round.reward).field("EventId", round.event);
      json.field("ActionTaken", false).end_object();
    }
    json.end_array();
  }

  static void write_event(JsonWriter& json, const LoggedRound& round) {
    if (round.time) {
      json.field("Timestamp", time_text(*round.time));
    }
    json.field("Version", "1");
    if (!round.event.empty()) {
      json.field("EventId", round.event);
    }
  }

  void write_end(JsonWriter& json, const LoggedRound& round) {
    json.key("VWState").begin_object().field("m", "N/A").end_object();
    if (round.drop_probability > 0.0) {
      json.field("pdrop", round.drop_probability);
    }
  }

  void write_bandit(const LoggedRound& round) {
    JsonWriter json;
    json.begin_object().field("_label_cost", -reward_of(round));
    json.field("_label_probability", round.probability).field("_label_Action", round.chosen + 1);
    json.field("_labelIndex", round.chosen);
    if (round.excluded) {
      json.field("_skipLearn", true);
    }
    write_observations(json, "o", round);
    write_event(json, round);
    write_order(json, round, "a", "p", 1);
    write_context(json, round);
    json.end_object();
    write_end(json, round);
    json.field("_original_label_cost", -reward_of(round)).end_object();
    out_ << json.text() << '\n';
  }

  void write_slots() {
    const LoggedRound& first = slots_.front();
    JsonWriter json;
    json.begin_object();
    write_event(json, first);
    write_context(json, first);
    json.key("_slots").begin_array();
    for (const LoggedRound& round : slots_) {
      open_with_members(json, round.slot_features);
      json.field("_id", round.slot_id).end_object();
    }
    json.end_array().end_object().key("_outcomes").begin_array();
    for (const LoggedRound& round : slots_) {
      json.begin_object().field("_label_cost", -reward_of(round)).field("_id", round.slot_id);
      write_order(json, round, "_a", "_p", 0);
      write_observations(json, "_o", round);
      json.field("_original_label_cost", -reward_of(round)).end_object();
    }
    json.end_array();
    if (first.excluded) {
      json.field("_skipLearn", true);
    }
    write_end(json, first);
    json.end_object();
    out_ << json.text() << '\n';
  }

  std::ostream& out_;
  std::vector<LoggedRound> slots_;  // of an event that is not complete
};

// A cell of one line, since tables are read line by line.
std::string csv_cell(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  std::ranges::replace(text, '\r', ' ');
  if (text.find_first_of(",\"\r\n") == std::string::npos && !text.starts_with(' ') &&
      !text.ends_with(' ')) {
    return text;
  }
  std::string cell = "\"";
  for (const char c : text) {
    cell += c;
    if (c == '"') {
      cell += c;
    }
  }
  return cell + "\"";
}

// Everything that a column of its own does not say is in the column `round`, as JSON.
class CsvWriter : public LogWriter {
 public:
  explicit CsvWriter(std::ostream& out) : out_(out) {
    out_ << "event,user,time,slot,action,probability,reward,round\n";
  }

  void write(const LoggedRound& round) override {
    out_ << fmt::format("{},{},{},{},{},{},{},", csv_cell(round.event), csv_cell(round.user),
                        round.time ? time_text(*round.time) : "", round.slot,
                        csv_cell(round.actions[round.chosen].id), round.probability,
                        round.reward ? fmt::format("{}", *round.reward) : "");
    std::ostringstream line;
    JsonLinesWriter(line).write(round);
    std::string json = line.str();
    json.pop_back();
    out_ << csv_cell(json) << '\n';
  }

 private:
  std::ostream& out_;
};

}  // namespace

LogFormat parse_log_format(const std::string& name) {
  if (name == "dsjson") {
    return LogFormat::kDsjson;
  }
  if (name == "jsonl") {
    return LogFormat::kJsonLines;
  }
  if (name == "csv") {
    return LogFormat::kCsv;
  }
  throw Error(ErrorKind::kUsage, fmt::format("format \"{}\": expected dsjson, jsonl or csv", name));
}

std::unique_ptr<LogWriter> make_log_writer(LogFormat format, std::ostream& out) {
  switch (format) {
    case LogFormat::kDsjson:
      return std::make_unique<DsjsonWriter>(out);
    case LogFormat::kJsonLines:
      return std::make_unique<JsonLinesWriter>(out);
    case LogFormat::kCsv:
      break;
  }
  return std::make_unique<CsvWriter>(out);
}

}  // namespace mcnb
