#pragma once

#include <string>
#include <vector>

#include "mcnb/serve/engine/model_host.h"
#include "mcnb/serve/engine/user_map.h"
#include "mcnb/serve/http/request_json.h"

namespace mcnb {

// From structs to the JSON bodies of responses. The schemas are in openapi_schemas.cpp.

std::string write_rank(const Decision& decision, bool explain, Dialect dialect);
// Of the decisions of all slots of an event. The first slot's answer is also that of the event.
std::string write_slots(const std::vector<Decision>& slots, bool explain, Dialect dialect);
// An event, or all slots of one; `found` says which of them still wait for rewards.
std::string write_event(const std::vector<FoundEvent>& slots,
                        const std::vector<ModelHost::FoundDecision>& found);
std::string write_events(const std::vector<FoundEvent>& events);
// `decision`: among the recent actions; null if there are none.
std::string write_user_estimates(const std::string& user_id, const Decision* decision);
std::string write_user_map(const UserMap& map);
std::string write_look(const ModelHost::Behind& behind, const LookNames& names);
std::string write_reward(RewardOutcome outcome);
std::string write_model(const ModelReport& report);
std::string write_models(const std::vector<ModelReport>& reports);
std::string write_user(const std::string& user_id, const UserReport& report);
std::string write_error(const ServiceError& error);

}  // namespace mcnb
