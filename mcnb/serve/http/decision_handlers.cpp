#include <fmt/core.h>

#include <algorithm>
#include <iterator>

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
  std::vector<RankRequest> requests = read_ranks(call.body, *options, dialect, call.assigned_id);
  task->request = std::move(requests.front());
  task->further.assign(std::make_move_iterator(requests.begin() + 1),
                       std::make_move_iterator(requests.end()));
  return submit(call, task, [task, dialect] {
    const bool explain = task->request.explain;
    if (task->request.slot.ids.empty()) {
      return write_rank(task->decision, explain, dialect);
    }
    std::vector<Decision> slots{std::move(task->decision)};
    std::ranges::move(task->further_decisions, std::back_inserter(slots));
    return write_slots(slots, explain, dialect);
  });
}

Reply Handlers::reward(const std::string& model, const Call& call, Dialect dialect) const {
  auto task = std::make_shared<RewardTask>();
  task->model = model;
  SlotReward given = read_reward(call.body, dialect, call.assigned_id);
  task->reward = std::move(given.reward);
  task->reward.event_id = call.id;
  task->slot = std::move(given.slot);
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

Reply Handlers::personalizer_rank_slots(const Call& call) const {
  return rank(personalizer_model_, call, Dialect::kPersonalizerSlots);
}

Reply Handlers::personalizer_reward_slots(const Call& call) const {
  std::vector<Task> tasks;
  for (SlotReward& given : read_slot_rewards(call.body, call.assigned_id)) {
    auto task = std::make_shared<RewardTask>();
    task->model = personalizer_model_;
    task->reward = std::move(given.reward);
    task->reward.event_id = call.id;
    task->slot = std::move(given.slot);
    tasks.emplace_back(std::move(task));
  }
  return submit_all(call, std::move(tasks));
}

Reply Handlers::personalizer_activate(const Call& call) const {
  return activate(personalizer_model_, call);
}

}  // namespace mcnb
