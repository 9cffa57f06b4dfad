#include "tests/serve/power/promise_check.h"

#include <fmt/core.h>

#include "mcnb/base/error.h"

namespace mcnb::power {
namespace {

namespace fs = std::filesystem;
using namespace cases;

// What the log says of one event.
struct LoggedEvent {
  std::string decision;  // its bytes
  int decisions = 0;
  int rewards = 0;
};

struct LoggedModel {
  std::uint64_t first = 0;  // the position of its first row, or the one after all, if it has none
  std::map<std::string, LoggedEvent> events;
};

// The bytes of an action's features, as they would stand in a file.
std::string feature_bytes(const RankRequest& request, std::size_t action) {
  return {reinterpret_cast<const char*>(request.features.data() + 4 * action), 4 * sizeof(float)};
}

class PromiseCheck {
 public:
  PromiseCheck(const fs::path& data, const Promises& promises, Moment cut)
      : data_(data), promises_(promises), cut_(cut) {}

  std::vector<std::string> run() {
    if (!fs::exists(data_)) {
      if (promises_.lives.front().made <= cut_) {
        broken_.emplace_back("the data folder is gone");
      }
      return broken_;
    }
    look_for_forgotten_users();
    const std::vector<std::string> unfinished = unfinished_backups();
    attempt("the data", [&] { check_data(data_, cut_, cut_); });
    check_backups();
    attempt("the service", [&] { serve(unfinished); });
    return broken_;
  }

 private:
  template <class... Values>
  void broken(fmt::format_string<Values...> text, Values&&... values) {
    broken_.push_back(fmt::format(text, std::forward<Values>(values)...));
  }

  template <class Work>
  void attempt(const std::string& what, Work work) {
    try {
      work();
    } catch (const std::exception& error) {
      broken("{}: {}", what, error.what());
    }
  }

  bool is_over(std::size_t life, Moment moment) const {
    const Moment removal = promises_.lives[life].removal;
    return removal != 0 && removal <= moment;
  }
  bool may_be_forgotten(const std::string& user, Moment moment) const {
    return std::ranges::any_of(promises_.forgotten, [&](const ForgottenUser& own) {
      return own.name == user && own.asked <= moment;
    });
  }

  void look_for_forgotten_users() {
    const std::map<std::string, std::string> files = all_files(data_);
    for (const ForgottenUser& user : promises_.forgotten) {
      if (user.at > cut_) {
        continue;
      }
      for (const auto& [file, bytes] : files) {
        if (!file.starts_with("backups/")) {  // they are copies of what was there
          look_for(user, file, bytes);
        }
      }
    }
  }

  void look_for(const ForgottenUser& user, const std::string& file, const std::string& bytes) {
    bool found = bytes.find(user.name) != std::string::npos;
    for (const std::uint64_t event : user.events) {
      const RankRequest request = recorded_request(event, user.name);
      found = found || bytes.find(request.event_id) != std::string::npos ||
              bytes.find(feature_bytes(request, 0)) != std::string::npos;
    }
    if (found) {
      broken("{} still mentions the forgotten {}", file, user.name);
    }
  }

  LoggedModel read_log(LogStore& log, std::uint32_t model) {
    LoggedModel logged;
    log.replay(model, 0, [&](const LogRow& row) {
      logged.first = logged.first == 0 ? row.position : logged.first;
      const Event event = decode_event(row.kind, row.body, 4, "the log");
      if (const auto* decision = std::get_if<Decision>(&event)) {
        LoggedEvent& own = logged.events[decision->event_id];
        ++own.decisions;
        own.decision = row.body;
      } else if (const auto* reward = std::get_if<Reward>(&event)) {
        ++logged.events[reward->event_id].rewards;
      }
    });
    logged.first = logged.first == 0 ? log.last_position(model) + 1 : logged.first;
    return logged;
  }

  // Checks what was acknowledged before `sure`, in data that was written until `latest`.
  void check_data(const fs::path& folder, Moment sure, Moment latest) {
    const std::unique_ptr<Storage> storage = open_data_folder(folder, StorageAccess::kOwn);
    ThreadPool threads(1);
    ModelHost host(*storage, threads);
    host.recover();
    const auto digests = host.digests();
    std::map<std::string, ModelReport> reports;
    for (const ModelReport& report : host.reports()) {
      reports[report.name] = report;
    }
    host.recover(true);
    if (host.digests() != digests) {
      broken("{}: the base and the log do not give the latest state", folder.filename().string());
    }
    for (std::size_t life = 0; life < promises_.lives.size(); ++life) {
      const ModelLife& own = promises_.lives[life];
      if (own.made > sure || is_over(life, latest)) {
        continue;
      }
      const auto report = reports.find(own.name);
      if (report == reports.end() || report->second.id != life + 1) {
        broken("model {} is gone", own.name);
      } else {
        check_life(life, read_log(storage->log(), report->second.id), sure, latest);
        check_counts(life, report->second.counts, sure, latest);
      }
    }
  }

  void check_life(std::size_t life, const LoggedModel& logged, Moment sure, Moment latest) {
    const auto missing = [&](const auto& promise) {
      return promise.life == life && promise.at <= sure && logged.first <= promise.earliest &&
             !may_be_forgotten(promise.user, latest);
    };
    const auto find = [&](const std::string& event) {
      const auto found = logged.events.find(event);
      return found == logged.events.end() ? LoggedEvent() : found->second;
    };
    for (const AcknowledgedDecision& decision : promises_.decisions) {
      if (missing(decision) && find(decision.event).decision != decision.bytes) {
        broken("the decision of {} is lost or changed", decision.event);
      }
    }
    for (const AcknowledgedReward& reward : promises_.rewards) {
      if (missing(reward) && find(reward.event).rewards == 0) {
        broken("the reward of {} is lost", reward.event);
      }
    }
    for (const auto& [event, own] : logged.events) {
      if (own.decisions > 1 || own.rewards > 1) {
        broken("{} has {} decisions and {} rewards", event, own.decisions, own.rewards);
      }
    }
  }

  // Also what was trimmed must have been counted.
  void check_counts(std::size_t life, const ModelCounts& counts, Moment sure, Moment latest) {
    const auto acknowledged = [&](const auto& promises) {
      return static_cast<std::uint64_t>(std::ranges::count_if(
          promises, [&](const auto& own) { return own.life == life && own.at <= sure; }));
    };
    const std::uint64_t least = acknowledged(promises_.decisions);
    std::uint64_t most = 0;
    for (const auto& [moment, count] : promises_.asked) {
      most += moment <= latest ? count : 0;
    }
    if (counts.decisions < least || (life == 0 && counts.decisions > most)) {
      broken("{} counts {} decisions, expected {} to {}", promises_.lives[life].name,
             counts.decisions, least, most);
    }
    if (counts.rewards < acknowledged(promises_.rewards)) {
      broken("{} counts {} rewards, expected at least {}", promises_.lives[life].name,
             counts.rewards, acknowledged(promises_.rewards));
    }
  }

  std::vector<std::string> backup_names(bool unfinished) const {
    std::vector<std::string> names;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(data_ / "backups", missing)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with('.') == unfinished) {
        names.push_back(name);
      }
    }
    return names;
  }
  std::vector<std::string> unfinished_backups() const { return backup_names(true); }

  // Also backups that nobody was told of are whole.
  void check_backups() {
    const std::vector<std::string> there = backup_names(false);
    for (const MadeBackup& backup : promises_.backups) {
      if (std::ranges::count(there, backup.name) > 0) {
        attempt(backup.name,
                [&] { check_data(data_ / "backups" / backup.name, backup.asked, backup.at); });
      } else if (backup.at <= cut_) {
        broken("{} is gone", backup.name);
      }
    }
  }

  void serve(const std::vector<std::string>& unfinished) {
    ManualClock clock;
    Metrics metrics;
    std::unique_ptr<Storage> storage = open_data_folder(data_, StorageAccess::kOwn);
    Storage& own = *storage;
    EngineCore core(std::move(storage), recorded_options(promises_.trims), clock, metrics);
    if (!unfinished_backups().empty()) {
      broken("a backup that was being made is still there");
    }
    for (const std::string& name : unfinished) {
      const std::string meant = name.substr(1, name.size() - std::string(".part").size() - 1);
      if (!own.has_backup(meant) && !own.back_up(meant)) {
        broken("{} blocks the name {}", name, meant);
      }
    }
    if (!core.options_of("m")) {
      return;  // a missing model was noticed above
    }
    for (const Task& task : {Task(rank_task(recorded_request(1, "new"))),
                             Task(reward_task(recorded_request(1, "new").event_id, 1.0F))}) {
      bool answered = false;
      base_of(task).done = [&] { answered = true; };
      core.submit(task);
      for (int step = 0; step < 100 && !answered; ++step) {
        core.step();
      }
      if (!answered || base_of(task).error) {
        broken("the service does not serve: {}",
               answered ? base_of(task).error->message : "no answer");
      }
    }
  }

  fs::path data_;
  const Promises& promises_;
  Moment cut_;
  std::vector<std::string> broken_;
};

}  // namespace

std::vector<std::string> broken_promises(const fs::path& folder, const Promises& promises,
                                         Moment cut) {
  const WithoutSyncs quickly;
  return PromiseCheck(folder / RecordedService::kData, promises, cut).run();
}

Recording record_start(const fs::path& folder, const Promises& promises, Moment& begin) {
  const WithoutSyncs quickly;
  FileRecorder recorder(folder);
  begin = recorder.count();
  try {
    ManualClock clock;
    Metrics metrics;
    EngineCore core(open_data_folder(folder / RecordedService::kData, StorageAccess::kOwn),
                    recorded_options(promises.trims), clock, metrics);
    for (int step = 0; step < 10; ++step) {
      clock.advance(200);
      core.step();
    }
  } catch (const Error&) {
    // The check of the promises says why.
  }
  recorder.end();
  return recorder.recording();
}

}  // namespace mcnb::power
