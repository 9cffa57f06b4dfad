// Logs of Vowpal Wabbit and Personalizer: one decision a line, joined with its rewards.

#include <fmt/core.h>

#include <vector>

#include "mcnb/evaluate/readers/line_readers.h"
#include "mcnb/logs/timestamps.h"

namespace mcnb {
namespace {

using json::Array;
using json::Element;
using json::Object;

// The names of the members that say what was chosen: "a" and "p", with indices from 1, in logs of
// one slot; "_a" and "_p", with indices from 0, in outcomes of several.
struct OrderNames {
  const char* actions;
  const char* probabilities;
  const char* observations;
  std::uint32_t base;
};
constexpr OrderNames kOneSlot{"a", "p", "o", 1};
constexpr OrderNames kManySlots{"_a", "_p", "_o", 0};

// Reads which actions could be chosen, with their probabilities. Returns the index of the first,
// which is the one that was shown.
std::uint32_t read_order(const Object& outcome, const OrderNames& names, LoggedRound& round) {
  const std::size_t count = round.actions.size();
  round.probabilities.assign(count, 0.0);
  std::vector<bool> named(count);
  std::vector<std::uint32_t> order;
  for (const Element action : json::array_of(json::need(outcome, names.actions), names.actions)) {
    const std::uint32_t index = json::index_of(action, names.actions);
    if (index < names.base || index - names.base >= count || named[index - names.base]) {
      throw RowError{fmt::format("{}: expected indices from {} to {}, each once, found {}",
                                 names.actions, names.base, count + names.base - 1, index)};
    }
    order.push_back(index - names.base);
    named[order.back()] = true;
  }
  const Array numbers =
      json::array_of(json::need(outcome, names.probabilities), names.probabilities);
  if (order.empty() || numbers.size() != order.size()) {
    throw RowError{fmt::format("{}: expected as many numbers as {} has actions, found {} and {}",
                               names.probabilities, names.actions, numbers.size(), order.size())};
  }
  std::size_t i = 0;
  for (const Element number : numbers) {
    round.probabilities[order[i++]] = json::number_of(number, names.probabilities);
  }
  round.eligible = order.size() == count ? std::vector<bool>{} : named;
  return order.front();
}

void read_multi(const Object& context, LoggedRound& round) {
  round.actions.clear();
  for (const Element element : json::array_of(json::need(context, "_multi"), "_multi")) {
    const Object action = json::object_of(element, "_multi");
    RoundAction& read = round.actions.emplace_back();
    if (const auto tag = json::find(action, "_tag")) {
      read.id = json::text_of(*tag, "_tag");
    }
    read.features = json::without(action, {"_tag"});
    if (const auto hashed = json::find(action, "hashed");
        hashed && json::without(action, {"_tag", "hashed"}).empty()) {
      read.features = simdjson::minify(json::array_of(*hashed, "hashed"));
    }
  }
}

// An outcome was observed unless the list of observations is empty or missing.
void read_outcome(const Object& outcome, const char* observations, LoggedRound& round) {
  round.reward.reset();
  if (const auto cost = json::find(outcome, "_label_cost")) {
    round.reward = 0.0 - json::number_of(*cost, "_label_cost");
  }
  const auto observed = json::find(outcome, observations);
  round.default_reward =
      round.reward && !(observed && json::array_of(*observed, observations).size() > 0);
}

class DsjsonReader : public LineReader {
 public:
  void read(std::string_view line, const VisitRound& visit, const LeaveOut& leave_out) override {
    if (line.starts_with("[CHECKPOINT")) {
      leave_out("checkpoint lines");
      return;
    }
    const Object event = json::parse_line(parser_, line);
    const auto context = json::find(event, "c");
    if (!context && json::find(event, "Observations")) {
      leave_out("rewards without a decision");
      return;
    }
    read_event(event, json::object_of(context ? *context : json::need(event, "c"), "c"));
    if (json::find(event, "_outcomes")) {
      read_slots(event, json::object_of(*context, "c"), visit);
    } else {
      read_single(event, visit);
    }
  }

 private:
  // What all slots share.
  void read_event(const Object& event, const Object& context) {
    round_ = {};
    if (const auto id = json::find(event, "EventId")) {
      round_.event = json::text_of(*id, "EventId");
    }
    if (const auto time = json::find(event, "Timestamp")) {
      const std::string text = json::text_of(*time, "Timestamp");
      round_.time = parse_time(text);
      if (!round_.time) {
        refuse_field("Timestamp", "a time such as 2021-02-04T16:31:29.246Z", text);
      }
    }
    if (const auto user = json::find(context, "_user")) {
      round_.user = json::text_of(*user, "_user");
    }
    if (const auto skip = json::find(event, "_skipLearn")) {
      round_.excluded = json::flag_of(*skip, "_skipLearn");
    }
    if (const auto drop = json::find(event, "pdrop")) {
      round_.drop_probability = json::number_of(*drop, "pdrop");
    }
    round_.context = json::without(context, {"_multi", "_slots", "_user"});
    read_multi(context, round_);
  }

  void read_single(const Object& event, const VisitRound& visit) {
    const std::uint32_t first = read_order(event, kOneSlot, round_);
    round_.chosen = first;
    if (const auto label = json::find(event, "_labelIndex")) {
      round_.chosen = json::index_of(*label, "_labelIndex");
    }
    if (const auto action = json::find(event, "_label_Action");
        action && json::index_of(*action, "_label_Action") != round_.chosen + 1) {
      throw RowError{fmt::format("_label_Action: expected {}, one more than _labelIndex, found {}",
                                 round_.chosen + 1, json::index_of(*action, "_label_Action"))};
    }
    const auto label = json::find(event, "_label_probability");
    round_.probability = label ? json::number_of(*label, "_label_probability")
                         : round_.chosen < round_.probabilities.size()
                             ? round_.probabilities[round_.chosen]
                             : 0.0;
    read_outcome(event, kOneSlot.observations, round_);
    check_logged_round(round_);
    visit(round_);
  }

  void read_slots(const Object& event, const Object& context, const VisitRound& visit) {
    const Array outcomes = json::array_of(json::need(event, "_outcomes"), "_outcomes");
    const Array slots = json::array_of(json::need(context, "_slots"), "_slots");
    if (outcomes.size() == 0 || outcomes.size() != slots.size()) {
      throw RowError{fmt::format("_outcomes: expected one for each of {} slots, found {}",
                                 slots.size(), outcomes.size())};
    }
    rounds_.clear();
    auto slot = slots.begin();
    for (const Element element : outcomes) {
      LoggedRound& round = rounds_.emplace_back(round_);
      const Object shown_in = json::object_of(*slot, "_slots");
      const Object outcome = json::object_of(element, "_outcomes");
      round.slot = static_cast<std::uint32_t>(rounds_.size() - 1);
      round.slots = static_cast<std::uint32_t>(outcomes.size());
      if (const auto id = json::find(shown_in, "_id")) {
        round.slot_id = json::text_of(*id, "_id");
      }
      round.slot_features = json::without(shown_in, {"_id"});
      round.chosen = read_order(outcome, kManySlots, round);
      round.probability = round.probabilities[round.chosen];
      read_outcome(outcome, kManySlots.observations, round);
      check_logged_round(round);
      ++slot;
    }
    for (const LoggedRound& round : rounds_) {
      visit(round);
    }
  }

  simdjson::dom::parser parser_;
  LoggedRound round_;
  std::vector<LoggedRound> rounds_;
};

}  // namespace

std::unique_ptr<LineReader> make_dsjson_reader() { return std::make_unique<DsjsonReader>(); }

}  // namespace mcnb
