#include "mcnb/serve/store_log.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/serve/model/aggregation.h"
#include "mcnb/serve/model/event_keys.h"
#include "mcnb/serve/model/events.h"
#include "mcnb/serve/model/waiting_events.h"
#include "mcnb/serve/store/sqlite_log_store.h"

namespace mcnb {
namespace {

constexpr std::int64_t kMicroseconds = 1000;  // in a millisecond

// Opens the store beside a service that may be running. The witness is read after the database, so
// a batch in between looks like a loss; it does not at the next try.
std::unique_ptr<SqliteLogStore> open_beside(const std::filesystem::path& folder) {
  constexpr int kTries = 10;
  for (int attempt = 1;; ++attempt) {
    try {
      return std::make_unique<SqliteLogStore>(folder, SqliteLogStore::Access::kReadOnly, nullptr,
                                              StoreOptions{.check_bytes = 0});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCorrupt || attempt == kTries) {
        throw;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5 * attempt));
    }
  }
}

StoredModel find_model(LogStore& store, const std::string& name) {
  std::string known;
  const std::vector<StoredModel> models = store.models();
  for (const StoredModel& model : models) {
    if (model.name == name || (name.empty() && models.size() == 1)) {
      return model;
    }
    known += (known.empty() ? "" : ", ") + model.name;
  }
  throw Error(ErrorKind::kUsage,
              name.empty()
                  ? fmt::format("{}: has the models {}: name one by --model", store.name(), known)
                  : fmt::format("{}: no model \"{}\", only {}", store.name(), name,
                                known.empty() ? "none" : known));
}

// The number with the same shortest text: 0.9 for 0.9F.
double shortest(float number) { return std::strtod(fmt::format("{}", number).c_str(), nullptr); }

std::string vector_text(std::span<const float> numbers) {
  std::string text = "[";
  for (const float number : numbers) {
    fmt::format_to(std::back_inserter(text), "{}{}", text.size() > 1 ? "," : "", number);
  }
  return text + "]";
}

LoggedRound round_of(const Decision& decision, std::size_t dimension) {
  LoggedRound round;
  round.event = decision.event_id;
  round.user = decision.user_id;
  round.time = decision.time * kMicroseconds;
  round.chosen = decision.chosen;
  round.context = decision.original ? decision.original->context : "";
  for (std::size_t i = 0; i < decision.actions.size(); ++i) {
    const LoggedAction& action = decision.actions[i];
    round.actions.push_back(
        {action.id,
         decision.original
             ? decision.original->actions[i]
             : vector_text(std::span(decision.features).subspan(i * dimension, dimension))});
    round.probabilities.push_back(shortest(action.probability));
    round.eligible.push_back(action.eligible);
  }
  if (std::ranges::count(round.eligible, false) == 0) {
    round.eligible.clear();
  }
  round.probability = round.probabilities[round.chosen];
  return round;
}

struct Stopped {};  // leaves the replay

// Finds the reward of every decision by the rules of Model, from its events in the order of the
// log. Looks at times rather than at the logged ends of waiting times, which count events that may
// have been erased since.
class StoreLog {
 public:
  StoreLog(const std::filesystem::path& folder, const StoreLogOptions& options,
           const VisitRound& visit)
      : rows_(open_beside(folder)),
        decisions_(open_beside(folder)),
        choice_(options),
        visit_(visit),
        stored_(find_model(*rows_, options.model)),
        options_(stored_model_options(stored_.options)),
        waiting_(0) {}

  StoreLogReport read() {
    report_.model = stored_.name;
    try {
      rows_->replay(stored_.id, 0, [&](const LogRow& row) {
        end_until(row.time);
        std::visit([&](const auto& event) { on(event, row); },
                   decode_event(row.kind, row.body, dimension(), rows_->name()));
        if (choice_.goes_on && !choice_.goes_on()) {
          throw Stopped{};
        }
      });
    } catch (const Stopped&) {
      return report_;
    }
    report_.waiting = static_cast<std::uint64_t>(
        std::ranges::count_if(pending_, [](const Pending& one) { return !one.forgotten; }));
    return report_;
  }

 private:
  struct Pending {
    std::uint64_t position = 0;
    std::int64_t time = 0;
    std::uint64_t user = 0;
    std::optional<float> reward;  // nothing: the default
    bool active = true;
    bool over = false;       // the waiting time
    bool forgotten = false;  // the user asked for it
  };

  std::size_t dimension() const { return static_cast<std::size_t>(options_.dimension); }
  std::int64_t waiting_milliseconds() const {
    return static_cast<std::int64_t>(options_.waiting_seconds * 1000.0);
  }

  void on(const Decision& decision, const LogRow& row) {
    const std::uint64_t key = event_id_key(decision.event_id, options_.seed);
    if (waiting_.find(key) != nullptr) {  // the service had ended it, and its id was used again
      end(waiting_.end(key, 0));
    }
    waiting_.add({.key = key,
                  .log_position = row.position,
                  .user = row.user,
                  .time = row.time,
                  .active = !decision.deferred,
                  .learns = decision.mode != ModelMode::kLogging});
    pending_.push_back({.position = row.position, .time = row.time, .user = row.user});
  }

  void on(const Reward& reward, const LogRow&) {
    const std::uint64_t key = event_id_key(reward.event_id, options_.seed);
    WaitingEvent* const event = waiting_.find(key);
    if (event == nullptr || reward.time - event->time >= waiting_milliseconds()) {
      return;
    }
    const std::uint64_t id = reward_id_key(key, reward.reward_id);
    const bool earliest = options_.aggregation == Aggregation::kEarliest;
    if ((id != 0 && std::ranges::count(event->reward_ids, id) > 0) ||
        event->rewards.size() >= (earliest ? 1 : kMostRewards)) {
      return;
    }
    event->rewards.push_back(reward.value);
    event->reward_ids.push_back(id);
  }

  void on(const Activation& activation, const LogRow&) {
    if (WaitingEvent* const event =
            waiting_.find(event_id_key(activation.event_id, options_.seed))) {
      event->active = true;
    }
  }

  void on(const Expiry&, const LogRow&) {
    while (waiting_.size() > options_.most_pending) {
      end(waiting_.end_oldest());
    }
    emit();
  }

  void on(const Forgetting& forgetting, const LogRow&) {
    waiting_.forget(forgetting.user);
    for (Pending& one : pending_) {
      if (one.user == forgetting.user && !one.over) {
        one.over = one.forgotten = true;
      }
    }
    emit();
  }

  void on(const SettingsChange& change, const LogRow&) {
    for (const auto& [name, text] : change.settings) {
      change_setting(options_, name, text);
    }
  }

  template <class Other>
  void on(const Other&, const LogRow&) {}  // does not concern rewards

  // Ends the events whose waiting time is over at this time.
  void end_until(std::int64_t time) {
    const WaitingEvent* oldest = waiting_.oldest();
    while (oldest != nullptr && time - oldest->time >= waiting_milliseconds()) {
      end(waiting_.end_oldest());
      oldest = waiting_.oldest();
    }
    emit();
  }

  void end(const WaitingEvent& event) {
    const auto own = std::ranges::lower_bound(pending_, event.log_position, {}, &Pending::position);
    own->over = true;
    own->active = event.active;
    if (!event.rewards.empty()) {
      own->reward =
          static_cast<float>(std::min(aggregate_rewards(options_.aggregation, event.rewards), 1.0));
    }
  }

  void emit() {
    while (!pending_.empty() && pending_.front().over) {
      const Pending one = pending_.front();
      pending_.pop_front();
      const std::int64_t time = one.time * kMicroseconds;
      if ((choice_.from && time < *choice_.from) || (choice_.to && time >= *choice_.to)) {
        continue;
      }
      const std::optional<LogRow> row =
          one.forgotten ? std::nullopt : decisions_->read(stored_.id, one.position);
      if (!row) {
        ++report_.forgotten;
        continue;
      }
      visit_one(one, *row);
    }
  }

  void visit_one(const Pending& one, const LogRow& row) {
    const Event event = decode_event(row.kind, row.body, dimension(), rows_->name());
    LoggedRound round = round_of(std::get<Decision>(event), dimension());
    round.excluded = !one.active;
    if (one.active) {
      round.reward = one.reward ? shortest(*one.reward) : options_.default_reward;
      round.default_reward = !one.reward.has_value();
    }
    ++report_.rounds;
    report_.unactivated += one.active ? 0 : 1;
    visit_(round);
  }

  // One for the rows in their order, one for single decisions meanwhile.
  std::unique_ptr<LogStore> rows_;
  std::unique_ptr<LogStore> decisions_;
  StoreLogOptions choice_;
  const VisitRound& visit_;
  StoredModel stored_;
  ModelOptions options_;
  WaitingEvents waiting_;
  std::deque<Pending> pending_;  // in the order of the log
  StoreLogReport report_;
};

}  // namespace

bool is_data_folder(const std::filesystem::path& folder) {
  std::error_code missing;
  return std::filesystem::exists(folder / SqliteLogStore::kFileName, missing);
}

StoreLogReport read_store_log(const std::filesystem::path& folder, const StoreLogOptions& options,
                              const VisitRound& visit) {
  return StoreLog(folder, options, visit).read();
}

}  // namespace mcnb
