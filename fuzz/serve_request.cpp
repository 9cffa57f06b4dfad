// Bodies and paths of requests. A request that is accepted must be valid; all others are refused
// with a status, a code and a message.

#include <cmath>
#include <cstdint>
#include <string_view>

#include "mcnb/base/check.h"
#include "mcnb/serve/http/request_json.h"
#include "mcnb/serve/http/response_json.h"
#include "mcnb/serve/http/routes.h"

namespace {

using namespace mcnb;

template <class Read>
void read_or_refuse(Read read) {
  try {
    read();
  } catch (const RequestRefused& refused) {
    const int status = refused.error().status();
    check(status >= 400 && status < 500, "the status says that the request is wrong");
    check(!refused.error().message.empty(), "a refusal says why");
    check(write_error(refused.error()).front() == '{', "a refusal is JSON");
  }
}

void expect_sound(const RankRequest& request, const ModelOptions& model) {
  const std::size_t actions = request.actions.size();
  check(actions >= 1 && actions <= kMostActions, "there are actions");
  check(request.features.size() == actions * model.dimension, "every action has its features");
  check(request.eligible.size() == actions, "every action is eligible or not");
  check(!request.event_id.empty() && request.event_id.size() <= kLongestId, "events have ids");
  check(!request.user_id.empty() && request.user_id.size() <= kLongestId, "users have names");
  for (const float x : request.features) {
    check(std::isfinite(x) && std::abs(x) <= 1.0001F, "features are of unit length");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  ModelOptions model;
  model.dimension = 3;
  model.user_path = "user.id";
  model.keep_features = true;
  for (const Dialect dialect :
       {Dialect::kOwn, Dialect::kPersonalizer, Dialect::kPersonalizerSlots}) {
    read_or_refuse([&] {
      for (const RankRequest& request : read_ranks(body, model, dialect)) {
        expect_sound(request, model);
      }
    });
    read_or_refuse([&] {
      const float value = read_reward(body, dialect).reward.value;
      check(value >= 0.0F && value <= 1.0F, "a reward is from 0 to 1");
    });
  }
  read_or_refuse([&] { read_model(body); });
  read_or_refuse([&] { read_challenger(body); });
  read_or_refuse([&] { read_promotion(body); });
  read_or_refuse([&] { read_slot_rewards(body); });
  read_or_refuse([&] { read_settings(body); });
  read_or_refuse([&] { read_nothing(body); });
  read_or_refuse([&] { read_backup_name(body); });
  read_or_refuse(
      [&] { check(is_model_name(read_challenger(body).name), "challengers have names"); });
  read_or_refuse(
      [&] { check(!read_promotion(body).challenger.empty(), "a challenger is promoted"); });
  for (const char* method : {"POST", "GET", "DELETE"}) {
    read_or_refuse([&] { find_endpoint(method, std::string(body)); });
  }
  return 0;
}
