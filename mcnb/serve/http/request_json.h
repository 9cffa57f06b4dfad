#pragma once

#include <string>
#include <string_view>

#include "mcnb/serve/engine/model_host.h"
#include "mcnb/serve/model/model.h"

namespace mcnb {

// From the JSON body of a request to a struct. Every function throws RequestRefused (status 400)
// that names the field: one that is missing, unknown, of the wrong type or out of range.

// Whose requests and responses: those of this service, or those of the retired Personalizer
// service. Personalizer requests name no user; `user_path` of the model says where in
// contextFeatures the user's name is.
enum class Dialect { kOwn, kPersonalizer };

// An event without an id gets a random one.
RankRequest read_rank(std::string_view body, const ModelOptions& model, Dialect dialect);
// Leaves `event_id` empty: it is part of the path.
Reward read_reward(std::string_view body, Dialect dialect);
// Accepts no body at all, or {}.
void read_nothing(std::string_view body);

struct ModelRequest {
  std::string name;
  ModelOptions options;
};
ModelRequest read_model(std::string_view body);
// A challenger as POST /v1/models/NAME/challengers describes it.
NewChallenger read_challenger(std::string_view body);

struct PromotionRequest {
  std::string challenger;
  std::string keep_as;  // empty: the policy until now is dropped
};
PromotionRequest read_promotion(std::string_view body);

// The members of the body as texts; the model checks their names and values.
OptionValues read_settings(std::string_view body);
// The name of a new backup.
std::string read_backup_name(std::string_view body);

}  // namespace mcnb
