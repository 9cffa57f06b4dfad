#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/serve/engine/stepped_engine.h"
#include "tests/serve/power/file_recorder.h"

// A life of the service in a real folder, with everything that it does to its files, and what it
// promised to whom at which moment.
namespace mcnb::power {

// A moment: how many file operations came before it.
using Moment = std::size_t;

// Decisions, rewards and users belong to one making of a model: "second" is removed and made anew.
struct ModelLife {
  std::string name;
  Moment made = 0;     // its making was acknowledged
  Moment removal = 0;  // its removal was asked for; 0: never
};

struct AcknowledgedDecision {
  Moment at = 0;
  std::size_t life = 0;
  std::string event;
  std::string user;
  std::string bytes;           // encode_event
  std::uint64_t earliest = 0;  // its position in the log is not below this one
};

struct AcknowledgedReward {
  Moment at = 0;
  std::size_t life = 0;
  std::string event;
  std::string user;
  std::uint64_t earliest = 0;
};

struct ForgottenUser {
  Moment asked = 0;
  Moment at = 0;  // acknowledged
  std::size_t life = 0;
  std::string name;
  std::vector<std::uint64_t> events;
};

struct MadeBackup {
  Moment asked = 0;
  Moment at = 0;
  std::string name;
};

struct Promises {
  std::vector<ModelLife> lives;
  std::vector<AcknowledgedDecision> decisions;
  std::vector<AcknowledgedReward> rewards;
  std::vector<ForgottenUser> forgotten;
  std::vector<MadeBackup> backups;
  std::map<Moment, std::uint64_t> asked;  // decisions of "m" that were asked for, by moment
  bool trims = true;                      // whether the log is kept so small that it is trimmed
};

EngineOptions recorded_options(bool trims = true);
RankRequest recorded_request(std::uint64_t event, const std::string& user);

class RecordedService {
 public:
  // Lives `rounds` rounds, drawn from the seed: decisions, rewards, snapshots, forgotten users,
  // backups, a model made anew, a trimmed log, restarts.
  RecordedService(const std::filesystem::path& folder, std::uint64_t seed, std::size_t rounds);

  const Recording& recording() const { return recorder_.recording(); }
  const Promises& promises() const { return promises_; }
  // Where the service's data lies, below the recorded folder.
  static constexpr const char* kData = "above/data";

  std::size_t trims = 0;  // rounds that erased the oldest rows of a model
  std::size_t restarts = 0;

 private:
  void start();
  void stop();
  void round();
  void make(const std::string& name);
  void submit_requests();
  void rank(std::vector<Task>& tasks);
  void reward(std::vector<Task>& tasks);
  void remember(const std::vector<Task>& tasks, const std::map<std::string, std::uint64_t>& before);
  void snapshot();
  void forget();
  void back_up();
  void make_second_anew();
  void run_together(const std::vector<Task>& tasks);
  void run(const std::shared_ptr<ControlTask>& task);
  std::size_t life_of(const std::string& model) const;
  std::string user_of(const std::string& model, std::uint64_t number);

  struct Asked {
    std::uint64_t number = 0;
    std::string model;
    std::size_t life = 0;
    std::string user;
    bool rewarded = false;
  };

  WithoutSyncs without_syncs_;
  std::filesystem::path folder_;
  bool in_pieces_;  // snapshots are written by pieces, with every other seed
  FileRecorder recorder_;
  Rng rng_;
  cases::ManualClock clock_;
  Metrics metrics_;
  Storage* storage_ = nullptr;  // of the core
  std::unique_ptr<EngineCore> core_;
  Promises promises_;
  std::map<std::string, Asked> asked_;               // by event
  std::map<std::string, std::uint64_t> first_rows_;  // positions, by model
  std::map<std::string, int> generations_;           // of users, by model and number
  std::uint64_t events_ = 100'000;
};

// A life of the service with its threads: clients that decide and reward at the same time, while
// users are forgotten, snapshots written and backups made.
struct ThreadedLife {
  Recording recording;
  Promises promises;
};
ThreadedLife record_threads(const std::filesystem::path& folder, std::uint64_t rounds);

}  // namespace mcnb::power
