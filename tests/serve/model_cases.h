#pragma once

#include <string>
#include <vector>

#include "mcnb/base/random.h"
#include "mcnb/serve/model/model.h"
#include "mcnb/serve/model/model_state.h"

// Small models and requests for the tests of the service.
namespace mcnb::cases {

inline ModelOptions small_model() {
  ModelOptions options;
  options.dimension = 4;
  options.policy = parse_policy("mcnb");
  set_option(options, "options.width", "8");
  set_option(options, "options.meta_steps", "2");
  bound_histories(options);
  return options;
}

// Three actions, drawn from the event's number.
inline RankRequest request_of(std::uint64_t number, const std::string& user) {
  Rng rng(1, Stream::kTest, number);
  RankRequest request;
  request.event_id = "event-" + std::to_string(number);
  request.user_id = user;
  for (int action = 0; action < 3; ++action) {
    request.actions.push_back("action-" + std::to_string(action));
    request.eligible.push_back(true);
    for (int i = 0; i < 4; ++i) {
      request.features.push_back(static_cast<float>(rng.normal() * 0.4));
    }
  }
  return request;
}

// More actions, until there are so many.
inline void add_actions(RankRequest& request, std::size_t count) {
  Rng rng(4, Stream::kTest, count);
  while (request.actions.size() < count) {
    request.actions.push_back("more-" + std::to_string(request.actions.size()));
    request.eligible.push_back(true);
    for (int i = 0; i < 4; ++i) {
      request.features.push_back(static_cast<float>(rng.normal() * 0.4));
    }
  }
}

// Events in the order of a log, applied to a model.
class Ledger {
 public:
  explicit Ledger(const ModelOptions& options, std::size_t threads = 1)
      : threads_(threads), model_(options, threads_) {}

  Model& operator*() { return model_; }
  Model* operator->() { return &model_; }

  void add(const Event& event) {
    model_.apply(event, ++position_);
    events_.push_back(event);
  }
  // Makes a decision, applies it and returns it.
  Decision rank(const RankRequest& request, std::int64_t time = 1000) {
    if (model_.needs_arrival(request.user_id)) {
      add(Arrival{model_.user_key(request.user_id)});
    }
    const RankRequest* one = &request;
    Decision decision = model_.decide({&one, 1}, time).front();
    add(decision);
    return decision;
  }
  RewardOutcome reward(const std::string& event, float value, const std::string& id = "",
                       std::int64_t time = 2000) {
    const Reward given{event, id, time, value};
    const RewardOutcome outcome = model_.judge(given);
    add(given);
    return outcome;
  }
  const std::vector<Event>& events() const { return events_; }
  std::string state() { return state_bytes(model_); }

 private:
  ThreadPool threads_;
  Model model_;
  std::uint64_t position_ = 0;
  std::vector<Event> events_;
};

}  // namespace mcnb::cases
