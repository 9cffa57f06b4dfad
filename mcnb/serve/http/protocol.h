#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "mcnb/serve/engine/model_host.h"

namespace mcnb {

// JSON to structs and back. Readers throw RequestRefused (400) naming the field: what is missing,
// of the wrong type, out of range, or unknown.

inline constexpr std::size_t kDeepest = 32;  // nesting of a body

// The requests of this service, and those of the retired one, which knows no users: `user_path` of
// the model says where in contextFeatures the user's name is.
enum class Dialect { kOwn, kPersonalizer };

RankRequest read_rank(std::string_view body, const ModelOptions& model, Dialect dialect);
// Without the event's id, which stands in the path.
Reward read_reward(std::string_view body, Dialect dialect);
// Of requests that have nothing to say: no body at all, or {}.
void read_nothing(std::string_view body);

struct ModelRequest {
  std::string name;
  ModelOptions options;
};
ModelRequest read_model(std::string_view body);
OptionValues read_settings(std::string_view body);

// Throws RequestRefused unless the text can be an id of `field`.
void check_id(std::string_view id, const char* field);

std::string write_rank(const Decision& decision, bool explain, Dialect dialect);
std::string write_event(const Decision& decision, bool waiting);
std::string write_reward(RewardOutcome outcome);
std::string write_model(const ModelReport& report);
std::string write_models(const std::vector<ModelReport>& reports);
std::string write_user(const std::string& user_id, const UserReport& report, bool shared);
std::string write_error(const ServiceError& error);

// 128 random bits in hexadecimal digits.
std::string new_event_id();

}  // namespace mcnb
