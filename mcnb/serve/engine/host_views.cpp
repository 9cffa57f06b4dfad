// What the models' host shows to people, without changing anything.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/model_host.h"
#include "mcnb/serve/engine/user_map.h"

namespace mcnb {
namespace {

constexpr double kMostTrySeconds = 0.25;  // estimated
constexpr double kMostSamples = 64.0;
constexpr std::size_t kMostMembers = 100;  // that a closer look names
constexpr std::size_t kUsersAtOnce = 32;

}  // namespace

LogView ModelHost::log_view(const std::string& model, const std::string& user_id) const {
  const Hosted& hosted = find(model);
  return {.model = hosted.id,
          .user = user_id.empty() ? 0 : hosted.model->user_key(user_id),
          .last_position = hosted.last_position,
          .dimension = static_cast<std::size_t>(hosted.model->options().dimension)};
}

Decision ModelHost::try_decision(const std::string& model, const RankRequest& request,
                                 std::int64_t time) {
  Hosted& hosted = find(model);
  const double seconds = static_cast<double>(request.actions.size()) * seconds_per_action(hosted);
  if (seconds > kMostTrySeconds) {
    refuse_request(ErrorCode::kTooCostly,
                   fmt::format("trying it would take an estimated {:.2f} s, expected at most "
                               "{:.2f} s: send fewer actions",
                               seconds, kMostTrySeconds),
                   "actions");
  }
  if (const auto fault =
          fault_of_request(request, static_cast<std::size_t>(hosted.model->options().dimension))) {
    throw RequestRefused(*fault);
  }
  try {
    std::optional<Decision> decision = hosted.model->try_decision(request, time);
    if (decision) {
      return std::move(*decision);
    }
  } catch (const Error& error) {
    refuse_request(ErrorCode::kModelDiverged, error.what());
  }
  refuse_request(ErrorCode::kUnknownUser,
                 fmt::format("there is no user \"{}\", and no learner without rewards that could "
                             "stand for a new user: try one who is known",
                             request.user_id),
                 "userId");
}

bool ModelHost::is_waiting(std::uint32_t model, std::uint64_t event) {
  const auto hosted = std::ranges::find_if(
      models_, [model](const auto& named) { return named.second.id == model; });
  return hosted != models_.end() && hosted->second.model->is_waiting(event);
}

ModelHost::Behind ModelHost::look_behind(const std::string& model, const Decision& decision) {
  Hosted& hosted = find(model);
  const double seconds = std::max(seconds_per_action(hosted), 1e-9);
  const auto most = static_cast<std::size_t>(
      std::clamp(kLookSeconds / seconds, static_cast<double>(kFewestSamples), kMostSamples));
  std::optional<CloserLook> look;
  try {
    look = hosted.model->closer_look(decision, most);
  } catch (const Error& error) {
    refuse_request(ErrorCode::kModelDiverged, error.what());
  }
  if (!look) {
    refuse_request(ErrorCode::kUnknownUser,
                   fmt::format("there is no user \"{}\"", decision.user_id), "userId");
  }
  Behind behind{std::move(*look), {}, log_view(model, "")};
  for (const UserId learner : behind.look.members.value_or(std::vector<UserId>())) {
    if (behind.members.size() < kMostMembers) {
      behind.members.push_back(hosted.model->user_of(static_cast<std::uint32_t>(index(learner))));
    }
  }
  return behind;
}

bool ModelHost::add_opinions(const std::string& model, double seconds, std::uint32_t& next,
                             const std::vector<RecentArm>& arms,
                             std::vector<std::uint32_t>& learners,
                             std::vector<std::uint32_t>& lessons, std::vector<float>& opinions) {
  Hosted& hosted = find(model);
  Model& state = *hosted.model;
  std::vector<Features> features;
  for (const RecentArm& arm : arms) {
    features.push_back({arm.features});
  }
  const std::size_t count = state.learner_count();
  const std::uint32_t stride = users_per_point(state.taught_count());
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::vector<UserId> some;
  while (next < count && !arms.empty() && std::chrono::steady_clock::now() < end) {
    some.clear();
    for (; next < count && some.size() < kUsersAtOnce; next += stride) {
      if (state.lessons_of(next) > 0 && learners.size() < kMostMapPoints) {
        some.push_back(UserId{next});
        learners.push_back(next);
        lessons.push_back(static_cast<std::uint32_t>(state.lessons_of(next)));
      }
    }
    if (!some.empty()) {
      state.opinions(some, features, opinions);
    }
  }
  return next >= count || arms.empty();
}

}  // namespace mcnb
