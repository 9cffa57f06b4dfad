// Models that begin with what was learned elsewhere.

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

#include "mcnb/base/error.h"
#include "mcnb/serve/model/model.h"

namespace mcnb {
namespace {

const StateHeader kStartState{.kind = "model-start", .version = 1};

template <class Write>
std::string start_bytes(Write write) {
  std::ostringstream out;
  StateWriter writer(out, "what a model starts from", kStartState);
  write(writer);
  writer.finish();
  return std::move(out).str();
}

}  // namespace

std::string Model::start_state() {
  learn_now();
  return start_bytes([&](StateWriter& writer) {
    writer.write(counts_.learned);
    writer.write_all(learners_);
    users_.save(writer);
    policy_->save(writer);
  });
}

std::string Model::start_state_of(const Policy& policy,
                                  const std::vector<std::string>& users) const {
  ServedUsers served(0, static_cast<std::size_t>(options_.most_users));
  if (!users.empty() && options_.groups > 0) {
    refuse_option("groups", "0, because users who are known have learners of their own",
                  std::to_string(options_.groups));
  }
  if (users.size() > options_.most_users) {
    refuse_option("mostUsers", fmt::format("at least {}, as many as there are", users.size()),
                  std::to_string(options_.most_users));
  }
  for (const std::string& name : users) {
    const std::uint64_t key = user_key(name.empty() ? kEverybody : name);
    if (!served.has_own(key)) {
      served.add(key);
    }
  }
  const std::size_t learners = users.empty() && options_.groups > 0
                                   ? static_cast<std::size_t>(options_.groups)
                                   : std::max<std::size_t>(users.size(), 1);
  if (policy.user_count() != learners || served.count() != users.size()) {
    throw Error(ErrorKind::kUsage,
                fmt::format("the policy knows {} users, of whom {} have names of their own",
                            policy.user_count(), served.count()));
  }
  return start_bytes([&](StateWriter& writer) {
    writer.write(std::uint64_t{0});
    writer.write_all(std::vector<LearnerCounts>(learners));
    served.save(writer);
    policy.save(writer);
  });
}

void Model::learn_logged(std::string_view user_id, RoundId round, std::uint32_t arm,
                         std::span<const float> features, float reward) {
  const std::uint64_t user = user_key(user_id);
  if (!users_.learner(user)) {
    on(Arrival{user});
  }
  const std::uint32_t learner = *users_.learner(user);
  ++counts_.learned;
  ++learners_[learner].lessons;
  lessons_.push_back({round, learner, arm, {features.begin(), features.end()}, reward});
}

void Model::on(const Start& event) {
  last_time_ = std::max(last_time_, event.time);
  require(counts_.decisions == 0 && users_.count() == 0 && challengers_.empty(),
          "a model starts from something after other events");
  std::istringstream in(event.state);
  StateReader reader(in, fmt::format("log row {}", last_position_), kStartState);
  counts_.learned = reader.read<std::uint64_t>();
  learners_ = reader.read_all<LearnerCounts>(0xffffffffU);
  users_.load(reader);
  policy_->load(reader);
  reader.finish();
  require(policy_->user_count() == learners_.size() && users_.learner_count() <= learners_.size(),
          "the users do not fit the policy");
}

}  // namespace mcnb
