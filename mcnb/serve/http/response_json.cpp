#include "mcnb/serve/http/response_json.h"

#include "mcnb/base/json_writer.h"

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

void write_decision(JsonWriter& out, const Decision& decision) {
  out.field("eventId", decision.event_id)
      .field("rewardActionId", decision.actions[decision.chosen].id);
  out.key("ranking").begin_array();
  for (const std::uint32_t index : decision.ranking) {
    out.begin_object()
        .field("id", decision.actions[index].id)
        .field("probability", decision.actions[index].probability)
        .end_object();
  }
  out.end_array();
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
      .field("keepFeatures", options.keep_features)
      .field("aggregation", name_of(options.aggregation));
}

void write_report(JsonWriter& out, const ModelReport& report) {
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
  out.end_object();
}

}  // namespace

std::string write_rank(const Decision& decision, bool explain, Dialect dialect) {
  JsonWriter out;
  out.begin_object();
  write_decision(out, decision);
  if (dialect == Dialect::kOwn) {
    out.field("modelVersion", decision.model_version);
    if (explain) {
      write_explanation(out, decision);
    }
  }
  out.end_object();
  return out.take();
}

std::string write_event(const Decision& decision, bool waiting) {
  JsonWriter out;
  out.begin_object();
  write_decision(out, decision);
  out.field("userId", decision.user_id)
      .field("time", decision.time)
      .field("mode", name_of(decision.mode))
      .field("deferred", decision.deferred)
      .field("waiting", waiting)
      .field("preferredActionId", decision.actions[decision.preferred].id)
      .field("propensity", decision.actions[decision.chosen].probability)
      .field("modelVersion", decision.model_version);
  write_explanation(out, decision);
  out.end_object();
  return out.take();
}

std::string write_reward(RewardOutcome outcome) {
  JsonWriter out;
  out.begin_object().field("outcome", name_of(outcome)).end_object();
  return out.take();
}

std::string write_model(const ModelReport& report) {
  JsonWriter out;
  write_report(out, report);
  return out.take();
}

std::string write_models(const std::vector<ModelReport>& reports) {
  JsonWriter out;
  out.begin_object().key("models").begin_array();
  for (const ModelReport& report : reports) {
    write_report(out, report);
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
