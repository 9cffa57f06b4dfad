#include "tests/serve/power/recorded_service.h"

#include "mcnb/serve/store/storage.h"

namespace mcnb::power {
namespace {

using namespace cases;

constexpr std::uint64_t kUsers = 6;

ModelOptions options_of(const std::string& model) {
  ModelOptions options = small_model();
  options.waiting_seconds = 10.0;
  if (model == "second") {  // fits its rewards often
    options.policy = parse_policy("hierarchical:first_fit=3:fit_growth=1.01:half_life=80");
  }
  return options;
}

std::string event_name(std::uint64_t number) { return "event-" + std::to_string(number); }

}  // namespace

EngineOptions recorded_options(bool trims) {
  EngineOptions options = stepped_options();
  if (trims) {
    options.log_bytes = 100'000;
  }
  return options;
}

RankRequest recorded_request(std::uint64_t event, const std::string& user) {
  RankRequest request = request_of(event, user);
  request.deferred = event % 11 == 0;
  return request;
}

RecordedService::RecordedService(const std::filesystem::path& folder, std::uint64_t seed,
                                 std::size_t rounds)
    : folder_(folder), in_pieces_(seed % 2 == 1), recorder_(folder), rng_(seed, Stream::kTest) {
  start();
  make("m");
  make("second");
  for (std::size_t i = 0; i < rounds; ++i) {
    round();
  }
  stop();
  recorder_.end();
}

void RecordedService::start() {
  std::unique_ptr<Storage> storage = open_data_folder(folder_ / kData, StorageAccess::kOwn);
  storage_ = storage.get();
  EngineOptions options = recorded_options();
  if (in_pieces_) {
    options.most_copied = 0;
  }
  core_ = std::make_unique<EngineCore>(std::move(storage), options, clock_, metrics_);
}

void RecordedService::stop() {
  core_->close();
  while (core_->step()) {
    clock_.advance(100);
  }
  core_.reset();
}

void RecordedService::run_together(const std::vector<Task>& tasks) {
  std::size_t left = tasks.size();
  for (const Task& task : tasks) {
    base_of(task).done = [&left] { --left; };
    ASSERT_TRUE(core_->submit(task));
  }
  for (int step = 0; left > 0; ++step) {
    ASSERT_LT(step, 1000) << "a task was not answered";
    core_->step();
  }
  for (const Task& task : tasks) {
    const std::optional<ServiceError>& error = base_of(task).error;
    // Refusals are no failures: of an event that nobody knows any more, or while a snapshot is
    // being written.
    ASSERT_TRUE(!error || error->status() < 500 || error->code == ErrorCode::kInProgress)
        << error->message;
  }
}

void RecordedService::run(const std::shared_ptr<ControlTask>& task) { run_together({task}); }

std::size_t RecordedService::life_of(const std::string& model) const {
  for (std::size_t i = promises_.lives.size(); i-- > 0;) {
    if (promises_.lives[i].name == model) {
      return i;
    }
  }
  return promises_.lives.size();
}

// Forgotten users come back under other names, so that the old ones must be nowhere.
std::string RecordedService::user_of(const std::string& model, std::uint64_t number) {
  const std::string user = model + "-user-" + std::to_string(number);
  return user + "-" + std::to_string(generations_[user]) + "-";
}

void RecordedService::make(const std::string& name) {
  run(control_task(
      [&](ControlTask&, ModelHost& host, std::int64_t) { host.create(name, options_of(name)); }));
  promises_.lives.push_back({name, recorder_.count(), 0});
}

void RecordedService::round() {
  clock_.advance(static_cast<std::int64_t>(rng_.below(400)));
  const std::uint64_t kind = rng_.below(100);
  const bool forgets = kind >= 89 && kind < 94;
  if (kind < 84) {
    submit_requests();
  } else if (kind < 89) {
    snapshot();
  } else if (forgets) {
    forget();
  } else if (kind < 97) {
    back_up();
  } else if (kind < 98) {
    make_second_anew();
  } else {
    stop();
    start();
    ++restarts;
  }
  for (std::uint64_t steps = rng_.below(3); steps > 0; --steps) {
    core_->step();
  }
  for (const char* model : {"m", "second"}) {
    const std::size_t life = life_of(model);
    const std::string key = model + std::to_string(life);
    const std::uint64_t first =
        first_position(storage_->log(), static_cast<std::uint32_t>(life + 1));
    trims += !forgets && first_rows_[key] != 0 && first > first_rows_[key] ? 1 : 0;
    first_rows_[key] = first;
  }
}

void RecordedService::submit_requests() {
  std::map<std::string, std::uint64_t> before;
  for (const char* model : {"m", "second"}) {
    before[model] = storage_->log().last_position(static_cast<std::uint32_t>(life_of(model) + 1));
  }
  std::vector<Task> tasks;
  for (std::uint64_t i = 1 + rng_.below(3); i > 0; --i) {
    if (asked_.empty() || rng_.chance(0.5)) {
      rank(tasks);
    } else {
      reward(tasks);
    }
  }
  run_together(tasks);
  remember(tasks, before);
}

void RecordedService::rank(std::vector<Task>& tasks) {
  const std::uint64_t number = events_++;
  const std::string model = number % 4 == 3 ? "second" : "m";
  const std::string user = user_of(model, rng_.below(kUsers));
  tasks.emplace_back(rank_task(recorded_request(number, user), model));
  asked_[event_name(number)] = {number, model, life_of(model), user, false};
  if (model == "m") {
    ++promises_.asked[recorder_.count()];
  }
}

void RecordedService::reward(std::vector<Task>& tasks) {
  const std::uint64_t recent = std::min<std::uint64_t>(asked_.size(), 12);
  auto event = asked_.end();
  std::advance(event, -static_cast<std::ptrdiff_t>(1 + rng_.below(recent)));
  tasks.emplace_back(
      reward_task(event->first, static_cast<float>(event->second.number % 2), event->second.model));
}

void RecordedService::remember(const std::vector<Task>& tasks,
                               const std::map<std::string, std::uint64_t>& before) {
  const Moment now = recorder_.count();
  for (const Task& task : tasks) {
    if (base_of(task).error) {
      continue;
    }
    if (const auto* rank = std::get_if<std::shared_ptr<RankTask>>(&task)) {
      const RankTask& own = **rank;
      promises_.decisions.push_back({now, life_of(own.model), own.request.event_id,
                                     own.request.user_id, encode_event(own.decision),
                                     before.at(own.model) + 1});
    } else {
      const RewardTask& own = *std::get<std::shared_ptr<RewardTask>>(task);
      Asked& asked = asked_.at(own.reward.event_id);
      const bool logged =
          own.outcome == RewardOutcome::kLearned || own.outcome == RewardOutcome::kWaiting;
      if (logged && !asked.rewarded) {
        asked.rewarded = true;
        promises_.rewards.push_back(
            {now, life_of(own.model), own.reward.event_id, asked.user, before.at(own.model) + 1});
      }
    }
  }
}

void RecordedService::snapshot() {
  run(control_task([](ControlTask& task, ModelHost& host, std::int64_t) {
    task.snapshots.push_back(host.snapshot("m"));
  }));
}

void RecordedService::forget() {
  const std::string model = rng_.chance(0.7) ? "m" : "second";
  const std::uint64_t number = rng_.below(kUsers);
  ForgottenUser user{recorder_.count(), 0, life_of(model), user_of(model, number), {}};
  for (const auto& [event, asked] : asked_) {
    if (asked.user == user.name && asked.life == user.life) {
      user.events.push_back(asked.number);
    }
  }
  const auto task = control_task([&](ControlTask& own, ModelHost& host, std::int64_t time) {
    erase_afterwards(own, host.forget(model, user.name, time));
  });
  run(task);
  if (!task->error) {
    ++generations_[model + "-user-" + std::to_string(number)];
    user.at = recorder_.count();
    promises_.forgotten.push_back(user);
  }
}

void RecordedService::back_up() {
  MadeBackup backup{recorder_.count(), 0, "backup-" + std::to_string(promises_.backups.size())};
  const auto task = control_task([&](ControlTask& own, ModelHost&, std::int64_t) {
    own.follow_up = [name = backup.name](Storage& storage) {
      if (!storage.back_up(name)) {
        throw Error(ErrorKind::kSystem, "the backup's name is taken");
      }
    };
  });
  run(task);
  backup.at = recorder_.count();
  promises_.backups.push_back(backup);
}

void RecordedService::make_second_anew() {
  promises_.lives[life_of("second")].removal = recorder_.count();
  run(control_task([](ControlTask& task, ModelHost& host, std::int64_t) {
    const std::uint32_t id = host.report("second").id;
    host.remove("second");
    task.follow_up = [id](Storage& storage) { storage.erase_model(id); };
    host.create("second", options_of("second"));
  }));
  promises_.lives.push_back({"second", recorder_.count(), 0});
  for (auto event = asked_.begin(); event != asked_.end();) {
    event = event->second.model == "second" ? asked_.erase(event) : std::next(event);
  }
}

}  // namespace mcnb::power
