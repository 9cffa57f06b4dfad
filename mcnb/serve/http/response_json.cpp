#include "mcnb/serve/http/response_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "mcnb/base/json_writer.h"
#include "mcnb/serve/model/event_keys.h"

namespace mcnb {
namespace {

void write_explanation(JsonWriter& out, const Decision& decision) {
  out.key("explain").begin_array();
  for (const std::uint32_t index : decision.ranking) {
    const LoggedAction& action = decision.actions[index];
    out.begin_object()
        .field("id", action.id)
        .field("probability", action.probability)
        .field("value", action.value)
        .field("estimate", action.estimate)
        .field("clusterSize", action.cluster_size);
    if (decision.estimated_sizes) {
      out.field("clusterFound", action.cluster_found)
          .field("clusterVisited", action.cluster_visited);
    }
    out.key("parts").begin_object();
    for (std::size_t part = 0; part < decision.part_names.size(); ++part) {
      out.field(decision.part_names[part], action.parts[part]);
    }
    out.end_object().end_object();
  }
  out.end_array();
}

void write_answer(JsonWriter& out, const Decision& decision) {
  out.field("rewardActionId", decision.actions[decision.chosen].id);
  out.key("ranking").begin_array();
  for (const std::uint32_t index : decision.ranking) {
    out.begin_object()
        .field("id", decision.actions[index].id)
        .field("probability", decision.actions[index].probability)
        .end_object();
  }
  out.end_array();
}

// What came of an event.
void write_outcome(JsonWriter& out, const FoundEvent& event) {
  out.field("activated", event.activated || !event.decision.deferred);
  out.key("rewards").begin_array();
  for (const Reward& reward : event.rewards) {
    out.begin_object()
        .field("value", reward.value)
        .field("rewardId", reward.reward_id)
        .field("time", reward.time)
        .end_object();
  }
  out.end_array();
}

// To four digits behind the point, which is more than a screen can show.
std::vector<float> rounded(std::vector<float> values) {
  for (float& value : values) {
    value = std::round(value * 1e4F) / 1e4F;
  }
  return values;
}

// The slot's own name and its answer, of which the probability is that given the slots before it.
void begin_slot(JsonWriter& out, const Decision& decision) {
  out.begin_object()
      .field("id", decision.slot.ids[decision.slot.index])
      .field("probability", decision.actions[decision.chosen].probability);
  write_answer(out, decision);
}

void write_found(JsonWriter& out, const FoundEvent& event, bool waiting) {
  const Decision& decision = event.decision;
  out.field("waiting", waiting)
      .field("preferredActionId", decision.actions[decision.preferred].id)
      .field("propensity", decision.actions[decision.chosen].probability);
  write_outcome(out, event);
  write_explanation(out, decision);
}

void write_options(JsonWriter& out, const ModelOptions& options) {
  out.field("policy", options.policy.name);
  out.key("options").begin_object();
  for (const auto& [name, text] : resolved_options(options.policy)) {
    out.field(name, text);
  }
  out.end_object();
  out.field("dimension", options.dimension)
      .field("seed", options.seed)
      .field("interactions", options.interactions)
      .field("groups", options.groups)
      .field("mostUsers", options.most_users)
      .field("mostPending", options.most_pending)
      .field("remembered", options.remembered)
      .field("userPath", options.user_path)
      .field("mode", name_of(options.mode))
      .field("epsilon", options.epsilon)
      .field("waitingSeconds", options.waiting_seconds)
      .field("defaultReward", options.default_reward)
      .field("aggregation", name_of(options.aggregation))
      .field("estimates", options.estimates)
      .field("keepFeatures", options.keep_features);
}

void write_estimate(JsonWriter& out, const char* name, const RunningValue& estimate) {
  out.key(name).begin_object().field("decisions", estimate.count()).key("value");
  if (const std::optional<double> value = estimate.value()) {
    out.value(*value);
  } else {
    out.raw("null");
  }
  const Interval interval = estimate.interval();
  out.field("low", interval.low)
      .field("high", interval.high)
      .field("effectiveSampleSize", estimate.effective_sample_size())
      .field("meanWeight", estimate.mean_weight())
      .end_object();
}

void write_challenger(JsonWriter& out, const ChallengerReport& challenger) {
  out.begin_object().field("name", challenger.name).field("policy", challenger.options.policy.name);
  out.key("options").begin_object();
  for (const auto& [name, text] : resolved_options(challenger.options.policy)) {
    out.field(name, text);
  }
  out.end_object();
  out.field("weights", name_of(challenger.options.weights))
      .field("mostWeight", challenger.options.most_weight)
      .field("sincePosition", challenger.since)
      .field("learned", challenger.learned)
      .field("refused", challenger.refused)
      .field("memoryBytes", challenger.memory_bytes)
      .field("lastRefusal", challenger.last_refusal);
  write_estimate(out, "estimate", challenger.estimate);
  write_estimate(out, "champion", challenger.champion);
  out.end_object();
}

void write_earned(JsonWriter& out, const EstimateReport& report) {
  const OutcomeCounts& counts = report.counts;
  out.key("earned")
      .begin_object()
      .field("decisions", counts.counted)
      .field("unactivated", counts.unactivated)
      .field("uncounted", report.uncounted)
      .field("rewardSum", counts.reward_sum)
      .key("meanReward");
  if (counts.counted > 0) {
    out.value(counts.reward_sum / static_cast<double>(counts.counted));
  } else {
    out.raw("null");
  }
  out.end_object();
}

void write_values(JsonWriter& out, const EstimateReport& report) {
  out.key("values").begin_object();
  write_estimate(out, "champion", report.champion);
  write_estimate(out, "random", report.random);
  write_estimate(out, "first", report.first);
  out.end_object();
  out.key("challengers").begin_array();
  for (const ChallengerReport& challenger : report.challengers) {
    write_challenger(out, challenger);
  }
  out.end_array();
}

// `values`: also what policies would have earned, of which the intervals take their time.
void write_report(JsonWriter& out, const ModelReport& report, bool values) {
  const ModelCounts& counts = report.counts;
  out.begin_object().field("name", report.name);
  write_options(out, report.options);
  out.field("modelVersion", report.version)
      .field("rounds", counts.decisions)
      .field("users", report.users)
      .field("learners", report.learners)
      .field("pending", report.waiting)
      .field("memoryBytes", report.memory_bytes)
      .field("lastPosition", report.last_position)
      .field("snapshotPosition", report.snapshot_position)
      .field("lastRefusal", report.last_refusal);
  out.key("counts")
      .begin_object()
      .field("explored", counts.explored)
      .field("agreed", counts.agreed)
      .field("learned", counts.learned)
      .field("defaultRewards", counts.defaults)
      .field("refused", counts.refused)
      .field("rewards", counts.rewards)
      .field("late", counts.late)
      .field("clipped", counts.clipped)
      .field("expired", counts.expired)
      .field("unactivated", counts.unactivated)
      .field("forgottenUsers", counts.forgotten)
      .end_object();
  const double scored = static_cast<double>(counts.scored);
  out.key("clusters")
      .begin_object()
      .field("meanSize",
             counts.scored == 0 ? 0.0 : static_cast<double>(counts.cluster_sizes) / scored)
      .end_object();
  write_earned(out, report.estimates);
  if (values) {
    write_values(out, report.estimates);
  }
  out.end_object();
}

}  // namespace

std::string write_rank(const Decision& decision, bool explain, Dialect dialect) {
  JsonWriter out;
  out.begin_object().field("eventId", decision.event_id);
  write_answer(out, decision);
  if (dialect == Dialect::kOwn) {
    out.field("modelVersion", decision.model_version);
    if (explain) {
      write_explanation(out, decision);
    }
  }
  out.end_object();
  return out.take();
}

std::string write_slots(const std::vector<Decision>& slots, bool explain, Dialect dialect) {
  JsonWriter out;
  out.begin_object().field("eventId", slots.front().event_id);
  if (dialect == Dialect::kOwn) {
    write_answer(out, slots.front());
    out.field("modelVersion", slots.front().model_version);
  }
  out.key("slots").begin_array();
  for (const Decision& decision : slots) {
    if (dialect != Dialect::kOwn) {
      out.begin_object()
          .field("id", decision.slot.ids[decision.slot.index])
          .field("rewardActionId", decision.actions[decision.chosen].id)
          .end_object();
      continue;
    }
    begin_slot(out, decision);
    if (explain) {
      write_explanation(out, decision);
    }
    out.end_object();
  }
  out.end_array().end_object();
  return out.take();
}

std::string write_event(const std::vector<FoundEvent>& slots,
                        const std::vector<ModelHost::FoundDecision>& found) {
  const Decision& decision = slots.front().decision;
  JsonWriter out;
  out.begin_object()
      .field("eventId", decision.event_id)
      .field("userId", decision.user_id)
      .field("time", decision.time)
      .field("mode", name_of(decision.mode))
      .field("deferred", decision.deferred)
      .field("modelVersion", decision.model_version);
  write_answer(out, decision);
  write_found(out, slots.front(), found.front().waiting);
  if (decision.slot.ids.empty()) {
    return out.end_object().take();
  }
  out.key("slots").begin_array();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    begin_slot(out, slots[i].decision);
    write_found(out, slots[i], found[i].waiting);
    out.end_object();
  }
  return out.end_array().end_object().take();
}

std::string write_events(const std::vector<FoundEvent>& events) {
  JsonWriter out;
  out.begin_object().key("events").begin_array();
  for (const FoundEvent& event : events) {
    const Decision& decision = event.decision;
    out.begin_object()
        .field("eventId", event_of_slot(decision.event_id))
        .field("userId", decision.user_id)
        .field("time", decision.time);
    if (!decision.slot.ids.empty()) {
      out.field("slot", decision.slot.ids[decision.slot.index]);
    }
    out.field("rewardActionId", decision.actions[decision.chosen].id)
        .field("propensity", decision.actions[decision.chosen].probability)
        .field("explored", decision.chosen != decision.preferred);
    write_outcome(out, event);
    out.end_object();
  }
  out.end_array().end_object();
  return out.take();
}

std::string write_user_estimates(const std::string& user_id, const Decision* decision) {
  JsonWriter out;
  out.begin_object().field("userId", user_id);
  if (decision != nullptr) {
    out.field("preferredActionId", decision->actions[decision->preferred].id);
    write_explanation(out, *decision);
  } else {
    out.key("explain").begin_array().end_array();
  }
  out.end_object();
  return out.take();
}

std::string write_user_map(const UserMap& map) {
  JsonWriter out;
  out.begin_object().key("actions").begin_array();
  for (const RecentArm& arm : map.arms) {
    out.value(arm.id);
  }
  out.end_array();
  const auto write_all = [&](const char* name, const auto& values) {
    out.key(name).begin_array();
    for (const auto value : values) {
      out.value(value);
    }
    out.end_array();
  };
  const auto [low, high] = std::ranges::minmax_element(map.opinions);
  const float least = low == map.opinions.end() ? 0.0F : *low;
  const float most = high == map.opinions.end() ? 1.0F : *high;
  const float step = most > least ? 255.0F / (most - least) : 0.0F;
  std::string levels;
  for (const float opinion : map.opinions) {
    fmt::format_to(std::back_inserter(levels), "{:02x}",
                   static_cast<unsigned>(std::lround((opinion - least) * step)));
  }
  write_all("learners", map.learners);
  write_all("lessons", map.lessons);
  write_all("x", rounded(map.x));
  write_all("y", rounded(map.y));
  out.field("low", least).field("high", most).field("opinions", levels).end_object();
  return out.take();
}

std::string write_look(const ModelHost::Behind& behind, const LookNames& names) {
  const auto& members = behind.look.members;
  JsonWriter out;
  out.begin_object()
      .field("clusters", members.has_value())
      .field("memberCount", static_cast<std::uint64_t>(members ? members->size() : 0));
  out.key("members").begin_array();
  for (std::size_t i = 0; i < behind.members.size(); ++i) {
    out.begin_object().field("learner", static_cast<std::uint64_t>(index((*members)[i])));
    if (!names.members[i].empty()) {
      out.field("userId", names.members[i]);
    }
    out.end_object();
  }
  out.end_array().key("samples").begin_array();
  for (std::size_t i = 0; i < behind.look.samples.size(); ++i) {
    const CloserLook::MovingSample& sample = behind.look.samples[i];
    out.begin_object().field("reward", sample.reward).field("moved", sample.moved);
    if (const SampleSource& source = names.samples[i]; !source.event_id.empty()) {
      out.field("eventId", source.event_id)
          .field("userId", source.user_id)
          .field("rewardActionId", source.action);
    }
    out.end_object();
  }
  out.end_array().end_object();
  return out.take();
}

std::string write_reward(RewardOutcome outcome) {
  JsonWriter out;
  out.begin_object().field("outcome", name_of(outcome)).end_object();
  return out.take();
}

std::string write_model(const ModelReport& report) {
  JsonWriter out;
  write_report(out, report, true);
  return out.take();
}

std::string write_models(const std::vector<ModelReport>& reports) {
  JsonWriter out;
  out.begin_object().key("models").begin_array();
  for (const ModelReport& report : reports) {
    write_report(out, report, false);
  }
  out.end_array().end_object();
  return out.take();
}

std::string write_user(const std::string& user_id, const UserReport& report) {
  JsonWriter out;
  out.begin_object()
      .field("userId", user_id)
      .field("ownLearner", report.own_learner)
      .field("shared", !report.own_learner)
      .field("learner", report.learner)
      .field("decisions", report.decisions)
      .field("learned", report.lessons)
      .end_object();
  return out.take();
}

std::string write_error(const ServiceError& error) {
  JsonWriter out;
  out.begin_object().key("error").begin_object();
  out.field("code", row_of(error.code).name).field("message", error.message);
  out.key("field");
  if (error.field.empty()) {
    out.raw("null");
  } else {
    out.value(error.field);
  }
  out.end_object().end_object();
  return out.take();
}

}  // namespace mcnb
