#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mcnb/serve/engine/event_search.h"
#include "mcnb/serve/engine/stepped_job.h"

namespace mcnb {

// What the learners of users say about recent actions, and where that puts each user on a plane:
// users who would rate these actions alike lie close together.
struct UserMap {
  std::vector<RecentArm> arms;
  std::vector<std::uint32_t> learners;  // one for each point
  std::vector<std::uint32_t> lessons;
  std::vector<float> opinions;  // of every point about every arm, point by point
  std::vector<float> x;
  std::vector<float> y;
};

// Fills `x` and `y`: the two directions in which the opinions differ most (principal components).
// The largest weight of a direction is positive, so that equal opinions give equal maps.
void project(UserMap& map);

// Makes the map of a model's users on the engine, in slices of a few milliseconds between the
// requests of others. At most kMostMapPoints users, evenly spread, who have learned something.
inline constexpr std::size_t kMostMapPoints = 100'000;
// One of how many users is a point, if so many have learned something.
std::uint32_t users_per_point(std::size_t users);

class UserMapJob : public SteppedJob {
 public:
  // Borrows the engine. `write` turns the finished map into text, on a thread that answers nobody.
  UserMapJob(Engine& engine, std::string model, std::string client,
             std::function<std::string(const UserMap& map)> write);

 private:
  void step(ControlTask& task, ModelHost& host, std::int64_t time) override;

  std::function<std::string(const UserMap& map)> write_;
  UserMap map_;
  std::uint32_t next_ = 0;  // learner
  bool has_arms_ = false;
};

}  // namespace mcnb
