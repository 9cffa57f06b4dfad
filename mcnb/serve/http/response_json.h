#pragma once

#include <string>
#include <vector>

#include "mcnb/serve/engine/model_host.h"
#include "mcnb/serve/http/request_json.h"

namespace mcnb {

// From structs to the JSON bodies of responses. The schemas are in openapi_schemas.cpp.

std::string write_rank(const Decision& decision, bool explain, Dialect dialect);
// Of the decisions of all slots of an event.
std::string write_slots(const std::vector<Decision>& slots, bool explain, Dialect dialect);
// One decision, or those of all slots.
std::string write_event(const std::vector<ModelHost::FoundDecision>& found);
std::string write_reward(RewardOutcome outcome);
std::string write_model(const ModelReport& report);
std::string write_models(const std::vector<ModelReport>& reports);
std::string write_user(const std::string& user_id, const UserReport& report);
std::string write_error(const ServiceError& error);

}  // namespace mcnb
