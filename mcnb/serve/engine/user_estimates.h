#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mcnb/serve/engine/event_search.h"
#include "mcnb/serve/engine/stepped_job.h"

namespace mcnb {

// What a model expects of the recent actions for one user, as if these were to choose from. Nothing
// is logged, learned or changed.
class UserEstimatesJob : public SteppedJob {
 public:
  // Borrows the engine. `write` turns the decision into text; without recent actions it gets null.
  UserEstimatesJob(Engine& engine, std::string model, std::string client, std::string user,
                   std::function<std::string(const Decision* decision)> write);

 private:
  void step(ControlTask& task, ModelHost& host, std::int64_t time) override;

  std::string user_;
  std::function<std::string(const Decision* decision)> write_;
  std::vector<RecentArm> arms_;
  bool has_arms_ = false;
};

}  // namespace mcnb
