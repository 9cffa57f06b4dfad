#include "mcnb/serve/engine/user_estimates.h"

#include <fmt/core.h>

#include <utility>

namespace mcnb {

UserEstimatesJob::UserEstimatesJob(Engine& engine, std::string model, std::string client,
                                   std::string user,
                                   std::function<std::string(const Decision* decision)> write)
    : SteppedJob(engine, std::move(model), std::move(client)),
      user_(std::move(user)),
      write_(std::move(write)) {}

void UserEstimatesJob::step(ControlTask& task, ModelHost& host, std::int64_t time) {
  if (!host.user(model(), user_).known) {
    refuse_request(ErrorCode::kUnknownUser, fmt::format("there is no user \"{}\"", user_),
                   "userId");
  }
  if (!has_arms_) {
    has_arms_ = true;
    task.look_up = [this, view = host.log_view(model(), "")](Storage& storage) {
      arms_ = recent_arms(storage.log(), view, kRecentArms, kRecentRows);
    };
    return;
  }
  if (arms_.empty()) {
    finish(write_(nullptr));
    return;
  }
  RankRequest request;
  request.user_id = user_;
  request.eligible.assign(arms_.size(), true);
  request.explain = true;
  for (const RecentArm& arm : arms_) {
    request.actions.push_back(arm.id);
    request.features.insert(request.features.end(), arm.features.begin(), arm.features.end());
  }
  const Decision decision = host.try_decision(model(), request, time);
  finish(write_(&decision));
}

}  // namespace mcnb
