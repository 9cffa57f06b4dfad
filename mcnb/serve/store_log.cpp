#include "mcnb/serve/store_log.h"

#include <fmt/core.h>
#include <simdjson.h>

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
#include "mcnb/logs/json_features.h"
#include "mcnb/serve/model/aggregation.h"
#include "mcnb/serve/model/event_keys.h"
#include "mcnb/serve/model/events.h"
#include "mcnb/serve/model/waiting_events.h"
#include "mcnb/serve/store/postgres/log_store.h"
#include "mcnb/serve/store/sqlite_log_store.h"
#include "mcnb/storage/postgres.h"

namespace mcnb {
namespace {

constexpr std::int64_t kMicroseconds = 1000;  // in a millisecond
// What is read in one go, before what was found is passed on: whoever takes it may be slow, and a
// service cannot empty its WAL, so forget nobody, while somebody reads the database.
constexpr std::uint64_t kRowsAtOnce = 1000;
constexpr std::size_t kBytesAtOnce = std::size_t{4} << 20;

// Opens the store beside a service that may be running. The witness is read after the database, so
// a batch in between looks like a loss; it does not at the next try.
std::unique_ptr<LogStore> open_beside(const std::string& where) {
  if (is_postgres_url(where)) {
    return std::make_unique<PostgresLogStore>(where, nullptr);
  }
  constexpr int kTries = 10;
  for (int attempt = 1;; ++attempt) {
    try {
      return std::make_unique<SqliteLogStore>(where, SqliteLogStore::Access::kReadOnly, nullptr,
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

// The service takes an array of objects for one with the members of all.
void add_members(const simdjson::dom::element& value, std::string& members) {
  if (simdjson::dom::object object; value.get(object) == simdjson::SUCCESS) {
    const std::string text = simdjson::minify(object);
    members += (members.empty() || text.size() == 2 ? "" : ",") + text.substr(1, text.size() - 2);
  } else if (simdjson::dom::array array; value.get(array) == simdjson::SUCCESS) {
    for (const simdjson::dom::element element : array) {
      add_members(element, members);
    }
  }
}

// Features that the caller wrote, as those of a round: an object or an array of numbers.
std::string round_features(const std::string& kept) {
  if (!kept.starts_with('[')) {
    return kept;
  }
  simdjson::dom::parser parser;
  const simdjson::dom::element value = parser.parse(kept);
  std::string members;
  if (!is_json_vector(value)) {
    add_members(value, members);
    return "{" + members + "}";
  }
  return kept;
}

LoggedRound round_of(const Decision& decision, std::size_t dimension) {
  LoggedRound round;
  round.event = event_of_slot(decision.event_id);
  if (!decision.slot.ids.empty()) {
    round.slot = decision.slot.index;
    round.slots = static_cast<std::uint32_t>(decision.slot.ids.size());
    round.slot_id = decision.slot.ids[decision.slot.index];
  }
  if (decision.kept) {
    round.context = round_features(decision.kept->context);
    round.slot_features = round_features(decision.kept->slot);
  }
  round.user = decision.user_id;
  round.time = decision.time * kMicroseconds;
  round.chosen = decision.chosen;
  for (std::size_t i = 0; i < decision.actions.size(); ++i) {
    const LoggedAction& action = decision.actions[i];
    const auto numbers = std::span(decision.features).subspan(i * dimension, dimension);
    round.actions.push_back({action.id, decision.kept ? round_features(decision.kept->actions[i])
                                                      : vector_text(numbers)});
    round.probabilities.push_back(shortest(action.probability));
    round.eligible.push_back(action.eligible);
  }
  if (std::ranges::count(round.eligible, false) == 0) {
    round.eligible.clear();
  }
  round.probability = round.probabilities[round.chosen];
  return round;
}

// Puts the actions of a slot into the order of another slot of the same event.
void order_like(const LoggedRound& first, LoggedRound& round) {
  LoggedRound ordered = round;
  for (std::size_t i = 0; i < first.actions.size(); ++i) {
    const auto from = static_cast<std::size_t>(
        std::ranges::find(round.actions, first.actions[i].id, &RoundAction::id) -
        round.actions.begin());
    ordered.actions[i] = round.actions[from];
    ordered.probabilities[i] = round.probabilities[from];
    if (!round.eligible.empty()) {
      ordered.eligible[i] = round.eligible[from];
    }
    if (from == round.chosen) {
      ordered.chosen = static_cast<std::uint32_t>(i);
    }
  }
  round = std::move(ordered);
}

struct Paused {};  // ends a replay

// Finds the reward of every decision by the rules of Model, from its events in the order of the
// log. Looks at times rather than at the logged ends of waiting times, which count events that may
// have been erased since.
class StoreLog {
 public:
  StoreLog(const std::string& where, const StoreLogOptions& options, const VisitRound& visit)
      : rows_(open_beside(where)),
        decisions_(open_beside(where)),
        choice_(options),
        visit_(visit),
        stored_(find_model(*rows_, options.model)),
        options_(stored_model_options(stored_.options)),
        waiting_(0) {}

  StoreLogReport read() {
    report_.model = stored_.name;
    while (read_some()) {
      emit();
      if (!goes_on()) {
        return report_;
      }
    }
    emit();
    flush_slots();
    report_.waiting = static_cast<std::uint64_t>(
        std::ranges::count_if(pending_, [](const Pending& one) { return !one.forgotten; }));
    return report_;
  }

 private:
  // Reads the next rows, of those that were there at the beginning. Returns false after the last.
  bool read_some() {
    std::uint64_t count = 0;
    std::size_t bytes = 0;
    bool paused = false;
    try {
      rows_->replay(stored_.id, read_until_, [&](const LogRow& row) {
        if (row.position > stored_.last_position) {
          throw Paused{};
        }
        if (++count > kRowsAtOnce || bytes > kBytesAtOnce) {
          paused = true;
          throw Paused{};
        }
        bytes += row.body.size();
        end_until(row.time);
        std::visit([&](const auto& event) { on(event, row); },
                   decode_event(row.kind, row.body, dimension(), rows_->name()));
        read_until_ = row.position;
      });
    } catch (const Paused&) {
    }
    return paused;
  }

  struct Pending {
    std::uint64_t position = 0;
    std::int64_t time = 0;
    std::uint64_t user = 0;
    std::optional<float> reward;  // nothing: the default
    double default_reward = 0.0;  // when the waiting time was over
    bool active = true;
    bool over = false;       // the waiting time
    bool forgotten = false;  // the user asked for it
  };

  bool goes_on() const { return !choice_.goes_on || choice_.goes_on(); }
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
  }

  void on(const Forgetting& forgetting, const LogRow&) {
    waiting_.forget(forgetting.user);
    for (Pending& one : pending_) {
      if (one.user == forgetting.user && !one.over) {
        one.over = one.forgotten = true;
      }
    }
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
  }

  void end(const WaitingEvent& event) {
    const auto own = std::ranges::lower_bound(pending_, event.log_position, {}, &Pending::position);
    own->over = true;
    own->active = event.active;
    own->default_reward = options_.default_reward;
    if (!event.rewards.empty()) {
      own->reward =
          static_cast<float>(std::min(aggregate_rewards(options_.aggregation, event.rewards), 1.0));
    }
  }

  // Passes on the decisions whose waiting time is over. Nothing is being read meanwhile.
  void emit() {
    while (!pending_.empty() && pending_.front().over && goes_on()) {
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
      round.reward = one.reward ? shortest(*one.reward) : one.default_reward;
      round.default_reward = !one.reward.has_value();
    }
    ++report_.rounds;
    report_.unactivated += one.active ? 0 : 1;
    if (!slots_.empty() && slots_.front().event != round.event) {
      flush_slots();
    }
    if (round.slots == 1) {
      visit_(round);
    } else {
      slots_.push_back(std::move(round));
    }
  }

  // Visits the slots of one event, with their actions in one order. A request that failed has fewer
  // slots than it asked for.
  void flush_slots() {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      slots_[i].slot = static_cast<std::uint32_t>(i);
      slots_[i].slots = static_cast<std::uint32_t>(slots_.size());
      order_like(slots_.front(), slots_[i]);
      visit_(slots_[i]);
    }
    slots_.clear();
  }

  // One for the rows in their order, one for single decisions meanwhile.
  std::unique_ptr<LogStore> rows_;
  std::unique_ptr<LogStore> decisions_;
  StoreLogOptions choice_;
  const VisitRound& visit_;
  StoredModel stored_;
  ModelOptions options_;
  WaitingEvents waiting_;
  std::uint64_t read_until_ = 0;    // position
  std::deque<Pending> pending_;     // in the order of the log
  std::vector<LoggedRound> slots_;  // of the latest event, if it has several
  StoreLogReport report_;
};

}  // namespace

bool is_store(const std::string& where) {
  std::error_code missing;
  return is_postgres_url(where) ||
         std::filesystem::exists(std::filesystem::path(where) / SqliteLogStore::kFileName, missing);
}

StoreLogReport read_store_log(const std::string& where, const StoreLogOptions& options,
                              const VisitRound& visit) {
  return StoreLog(where, options, visit).read();
}

}  // namespace mcnb
