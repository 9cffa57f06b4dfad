#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "mcnb/bandit/policies.h"
#include "mcnb/evaluate/policies/log_users.h"
#include "python/src/arrays.h"
#include "python/src/decided_rounds.h"
#include "python/src/logs.h"

namespace mcnb {
class Mcnb;
}

namespace mcnb::python {

// The arguments that make a bandit. Options are texts, as the policy's table reads them.
struct BanditSetup {
  PolicySpec policy;
  std::uint32_t features = 0;
  std::size_t users = 1;
  std::uint64_t seed = 0;
  std::size_t threads = 1;
  std::uint32_t block = 0;
  Device device = Device::kCpu;  // not part of saved states
  std::vector<float> user_features = {};
  std::size_t user_feature_count = 0;
};

// A policy and the memory that it borrows.
struct Model {
  explicit Model(const BanditSetup& setup);

  std::vector<float> user_features;
  ThreadPool threads;
  std::unique_ptr<Policy> policy;
};

// Releases the GIL and locks a bandit until the end of the scope.
class BanditLock {
 public:
  explicit BanditLock(std::mutex& mutex) : lock_(mutex) {}

 private:
  py::gil_scoped_release release_;
  std::lock_guard<std::mutex> lock_;
};

// A policy as Python holds it. It numbers its decisions, so that feedback uses the same random
// draws as its decision.
//
// Calls from several threads run one after the other; other Python threads run while they compute.
class Bandit {
 public:
  explicit Bandit(const BanditSetup& setup);
  // pybind11 calls this operator if a method is called before __init__. We create objects with
  // ::new instead.
  static void* operator new(std::size_t) {
    throw py::value_error("expected a Bandit that was made: Bandit.__init__ has not been called");
  }
  static void operator delete(void* memory) { ::operator delete(memory); }
  // Throw Error (kCorrupt, kSystem) if `save` or `bytes` did not write it, nor save_policy_file or
  // LogTraining (`load`). 0 threads: as saved.
  static std::unique_ptr<Bandit> load(const std::string& path, std::size_t threads, Device device);
  static std::unique_ptr<Bandit> from_bytes(const std::string& bytes, Device device);

  py::object choose(py::handle user, py::handle arms, py::handle items, py::handle offsets,
                    py::handle round);
  py::object predict(py::handle user, py::handle arms, py::handle items, py::handle offsets,
                     py::handle round, bool exploit);
  py::object scores(py::handle user, py::handle arms, py::handle items, py::handle offsets,
                    py::handle round);
  py::object expectations(py::handle user, py::handle arms, py::handle items, py::handle offsets,
                          py::handle round);
  py::object cluster(py::handle user, py::handle arm, py::handle item, py::handle offset);
  void learn(py::handle user, py::handle arm, py::handle reward, py::handle item, py::handle offset,
             py::handle round, py::handle index);
  void start(py::handle user, py::handle arm, py::handle reward, py::handle offset);
  // Feedback on the last decision is about this arm, whatever `choose` returned.
  void decide(py::handle arm);
  // Learns a log, several times over; see LogTraining. Returns how many rounds were learned.
  std::uint64_t learn_log(const Log& log, std::uint64_t passes, bool weighted, double most_weight);
  // The number of a user who is known by name; a new name becomes a new user.
  std::uint32_t user_number(const std::string& name);
  std::vector<std::string> user_names();
  void add_users(py::handle count);
  bool forget(py::handle user);
  void reset();

  py::list parameters(py::handle who);
  void set_parameters(py::handle who, py::handle values);

  void save(const std::string& path);
  std::string bytes();

  const BanditSetup& setup() const { return setup_; }
  std::size_t users() const { return users_; }
  std::optional<std::uint64_t> last_round();
  std::size_t memory_bytes();
  StepCounts steps();

  // Mean seconds of `choose` without Python, over this many rounds like the given one.
  double time_choose(py::handle user, py::handle arms, py::handle rounds);

  // The names of the users who have names. Requires the lock or a copy that nobody else has.
  LogUsers& names() { return names_; }
  // Returns the policy for the runner. Nothing else may use it while the runner does.
  std::shared_ptr<Model> model() { return model_; }

 private:
  struct Decision {
    RoundId round{};
    ArmIndex arm{};
  };
  using Scores = std::vector<std::vector<Score>>;

  Limits limits() const { return {users_, setup_.features, setup_.block}; }
  Mcnb& networks();
  UserId known_user(py::handle user, const char* name) const;
  RoundsRead read(py::handle user, py::handle arms, py::handle items, py::handle offsets,
                  py::handle round);
  void number(RoundsRead& read) const;
  // With `of_last_choose` the rounds of the last `choose` keep the random draws that they had
  // there.
  Scores all_scores(RoundsRead& read, bool of_last_choose);
  void address(ArmsRead& read) const;
  void settle(const ArmsRead& read);
  void write(StateWriter& writer);
  static std::unique_ptr<Bandit> from_policy_file(const std::string& path, std::size_t threads,
                                                  Device device);
  static std::unique_ptr<Bandit> read_state(StateReader& reader, std::size_t threads,
                                            Device device);

  BanditSetup setup_;
  std::mutex mutex_;  // taken without the GIL; guards all below
  std::shared_ptr<Model> model_;
  std::uint64_t next_round_ = 0;
  std::deque<Decision> waiting_;  // the decisions of the last choose that had no feedback yet
  DecidedRounds decided_;         // all rounds of the last choose
  LogUsers names_;
  std::atomic<std::size_t> users_;
};

void bind_bandit(py::module_& module);

}  // namespace mcnb::python
