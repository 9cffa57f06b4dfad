#include <fmt/core.h>

#include "mcnb/serve/http/handlers.h"
#include "mcnb/serve/http/response_json.h"

namespace mcnb {

Reply Handlers::rank(const std::string& model, const Call& call, Dialect dialect) const {
  const std::optional<ModelOptions> options = engine_.options_of(model);
  if (!options) {
    refuse_request(ErrorCode::kUnknownModel, fmt::format("there is no model \"{}\"", model),
                   "model");
  }
  auto task = std::make_shared<RankTask>();
  task->model = model;
  task->request = read_rank(call.body, *options, dialect, call.assigned_id);
  return submit(call, task, [task, dialect] {
    return write_rank(task->decision, task->request.explain, dialect);
  });
}

Reply Handlers::reward(const std::string& model, const Call& call, Dialect dialect) const {
  auto task = std::make_shared<RewardTask>();
  task->model = model;
  task->reward = read_reward(call.body, dialect, call.assigned_id);
  task->reward.event_id = call.id;
  return submit(call, task, [task, dialect] {
    return dialect == Dialect::kOwn ? write_reward(task->outcome) : "";
  });
}

Reply Handlers::activate(const std::string& model, const Call& call) const {
  read_nothing(call.body);
  auto task = std::make_shared<ActivationTask>();
  task->model = model;
  task->activation.event_id = call.id;
  return submit(call, task, [] { return std::string(); });
}

Reply Handlers::rank(const Call& call) const { return rank(call.model, call, Dialect::kOwn); }

Reply Handlers::reward(const Call& call) const { return reward(call.model, call, Dialect::kOwn); }

Reply Handlers::activate(const Call& call) const { return activate(call.model, call); }

Reply Handlers::personalizer_rank(const Call& call) const {
  return rank(personalizer_model_, call, Dialect::kPersonalizer);
}

Reply Handlers::personalizer_reward(const Call& call) const {
  return reward(personalizer_model_, call, Dialect::kPersonalizer);
}

Reply Handlers::personalizer_activate(const Call& call) const {
  return activate(personalizer_model_, call);
}

}  // namespace mcnb
