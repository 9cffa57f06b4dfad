#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mcnb/serve/engine/model_host.h"
#include "mcnb/serve/model/model.h"

namespace mcnb {

// From the JSON body of a request to a struct. Every function throws RequestRefused (status 400)
// that names the field: one that is missing, unknown, of the wrong type or out of range.

// Whose requests and responses: those of this service, or those of the retired Personalizer
// service, for one action or for several slots. Personalizer requests name no user; `user_path` of
// the model says where in contextFeatures the user's name is.
enum class Dialect { kOwn, kPersonalizer, kPersonalizerSlots };

// A request for a decision; several if the body has slots, one for each. Their eligible actions are
// those that the slot does not exclude; whoever decides leaves out what slots before it have taken,
// and at least one is always left. An event without an id gets `assigned_id`, or a random one if
// that is empty.
std::vector<RankRequest> read_ranks(std::string_view body, const ModelOptions& model,
                                    Dialect dialect, const std::string& assigned_id = "");
// Of a body without slots.
RankRequest read_rank(std::string_view body, const ModelOptions& model, Dialect dialect);

struct SlotReward {
  Reward reward;     // its `event_id` is empty: it is part of the path
  std::string slot;  // empty: none was named
};
// A reward without an id gets `assigned_id`.
SlotReward read_reward(std::string_view body, Dialect dialect, const std::string& assigned_id = "");
// The rewards of several slots, as the retired service took them. They get `assigned_id`.
std::vector<SlotReward> read_slot_rewards(std::string_view body,
                                          const std::string& assigned_id = "");
// Accepts no body at all, or {}.
void read_nothing(std::string_view body);

struct ModelRequest {
  std::string name;
  ModelOptions options;  // without `from`
  std::string from;      // the model or upload where the new model begins; empty: nothing
  OptionValues given;    // with `from`: the options that are named
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
