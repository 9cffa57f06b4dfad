#include "python/src/runs.h"

#include <fmt/core.h>
#include <pybind11/stl.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>

#include "mcnb/base/error.h"
#include "mcnb/environment/data_source.h"
#include "mcnb/experiment/run/experiment_policies.h"
#include "mcnb/experiment/run/runner.h"
#include "python/src/players.h"

namespace mcnb::python {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(50);  // for signals, and to show progress

// Runs work on another thread. The calling thread, which alone receives signals, checks now and
// then whether to stop. If this object is destroyed before the work has ended, `stop(true)` asks
// the work to end early, and `stop(false)` is called once it has ended.
class Background {
 public:
  Background(std::function<void()> work, std::function<void(bool)> stop)
      : work_(std::move(work)), stop_(std::move(stop)), thread_([this] {
          try {
            work_();
          } catch (...) {
            failure_ = std::current_exception();
          }
          const std::lock_guard lock(mutex_);
          ended_ = true;
          wake_.notify_all();
        }) {}
  ~Background() {
    if (thread_.joinable()) {
      stop_(true);
      join();
      stop_(false);
    }
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Returns true when the work has ended. Throws what a signal handler throws.
  bool wait() {
    bool ended = false;
    {
      const py::gil_scoped_release release;
      std::unique_lock lock(mutex_);
      ended = wake_.wait_for(lock, kLookEvery, [this] { return ended_; });
    }
    if (PyErr_CheckSignals() != 0) {
      throw py::error_already_set();
    }
    return ended;
  }

  // Throws what the work threw.
  void finish() {
    join();
    if (failure_) {
      std::rethrow_exception(failure_);
    }
  }

 private:
  void join() {
    const py::gil_scoped_release release;  // Python policies may be waiting for the GIL
    thread_.join();
  }

  std::function<void()> work_;
  std::function<void(bool)> stop_;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;  // last, because it uses all members above
};

// An environment of the library by name, for any number of seeds; its data is read once.
class NamedEnvironment {
 public:
  NamedEnvironment(const std::string& name, const OptionValues& options,
                   const std::vector<std::string>& folders, const std::string& prepared)
      : spec_{.name = name, .options = options, .data = nullptr} {
    all_options(spec_);  // throws now if an option is wrong
    spec_.data =
        make_data_source({.folders = {folders.begin(), folders.end()}, .prepared = prepared});
  }

  const EnvironmentSpec& spec() const { return spec_; }

  // Sets whether reading its data ends early, on this and on all other threads.
  void stop_reading(bool wanted) const { spec_.data->stop(wanted); }

 private:
  EnvironmentSpec spec_;
};

// One world of a named environment, round by round.
class World {
 public:
  World(const NamedEnvironment& environment, std::uint64_t seed) {
    Background making([&] { environment_ = make_environment(environment.spec(), seed); },
                      [&](bool wanted) { environment.stop_reading(wanted); });
    while (!making.wait()) {
    }
    making.finish();
  }

  const Environment& get() const { return *environment_; }

  // (id, users, arms, items, offsets, rewards, expected rewards)
  py::tuple next_round() {
    const Round& round = environment_->next_round();
    const auto count = static_cast<py::ssize_t>(round.arms.size());
    py::array_t<double> rewards(count);
    py::array_t<double> expected(count);
    for (const Arm& arm : round.arms) {
      rewards.mutable_data()[index(arm.index)] =
          static_cast<double>(environment_->reward(arm.index));
      expected.mutable_data()[index(arm.index)] = environment_->expected_reward(arm.index);
    }
    last_arms_ = round.arms.size();
    return py::reinterpret_steal<py::tuple>(PySequence_Concat(
        round_tuple(round, environment_->inputs()).ptr(), py::make_tuple(rewards, expected).ptr()));
  }

  py::object true_cluster(py::handle arm) const {
    if (!environment_->knows_clusters()) {
      return py::none();
    }
    if (last_arms_ == 0) {
      refuse_value("arm", "one of the last round; next_round comes first", "none");
    }
    const std::int64_t arm_index =
        one_whole(arm, "arm", 0, static_cast<std::int64_t>(last_arms_) - 1);
    const std::vector<UserId> users =
        environment_->true_cluster(ArmIndex{static_cast<std::uint32_t>(arm_index)});
    py::array_t<std::int64_t> ids(static_cast<py::ssize_t>(users.size()));
    std::ranges::transform(users, ids.mutable_data(),
                           [](UserId user) { return static_cast<std::int64_t>(user); });
    return ids;
  }

  // (user, features, offset, reward) of every datum.
  py::list start_data() const {
    py::list all;
    for (const StartDatum& datum : environment_->start_data()) {
      all.append(py::make_tuple(index(datum.user), copy_of(datum.sample.features.values),
                                datum.sample.features.offset, datum.sample.reward));
    }
    return all;
  }

 private:
  std::unique_ptr<Environment> environment_;
  std::size_t last_arms_ = 0;
};

py::object user_features_of(const Environment& environment) {
  const std::size_t columns = environment.user_feature_count();
  if (columns == 0) {
    return py::none();
  }
  const Shape shape{static_cast<py::ssize_t>(environment.user_count()),
                    static_cast<py::ssize_t>(columns)};
  return py::array_t<float>(shape, environment.user_features().data());
}

// A policy of the library, or a Python function that makes a policy.
struct PolicyChoice {
  std::string label;
  std::optional<PolicySpec> spec;
  py::object make;
};

struct Run {
  const NamedEnvironment* named = nullptr;  // null: `own` makes the environment
  py::object own;
  std::vector<PolicyChoice> policies;
  std::uint64_t rounds = 0;
  std::vector<std::uint64_t> seeds;
  std::size_t threads = 0;

  RunControl control;
  std::atomic<std::size_t> cells_done{0};
};

std::unique_ptr<Environment> environment_of(const Run& run, std::uint64_t seed) {
  if (run.named != nullptr) {
    return make_environment(run.named->spec(), seed);
  }
  const py::gil_scoped_acquire acquire;
  return std::make_unique<PythonEnvironment>(run.own(seed));
}

std::unique_ptr<Policy> policy_of(const PolicyChoice& policy_choice, const PolicySetup& setup,
                                  const Environment& environment) {
  if (policy_choice.spec) {
    return make_experiment_policy(*policy_choice.spec, setup, environment);
  }
  const py::gil_scoped_acquire acquire;
  const py::object made = policy_choice.make(setup.inputs, setup.users, setup.seed,
                                             user_features_of(environment), setup.block_length);
  if (!py::isinstance<Bandit>(made)) {
    return std::make_unique<PythonPolicy>(made, setup);
  }
  auto& bandit = py::cast<Bandit&>(made);
  if (bandit.setup().features != setup.inputs || bandit.users() != setup.users) {
    refuse_value(policy_choice.label,
                 fmt::format("a bandit of {} features and {} users, as the environment has",
                             setup.inputs, setup.users),
                 fmt::format("one of {} and {}", bandit.setup().features, bandit.users()));
  }
  return std::make_unique<BanditPlayer>(bandit.model());
}

std::optional<CellResult> run_one(Run& run, const PolicyChoice& policy_choice,
                                  std::uint64_t seed) try {
  const std::unique_ptr<Environment> environment = environment_of(run, seed);
  ThreadPool one_thread(1);
  const PolicySetup setup = setup_for(*environment, seed, one_thread);
  const std::unique_ptr<Policy> policy = policy_of(policy_choice, setup, *environment);
  std::optional<CellResult> result = play(*environment, *policy, run.rounds, run.control);
  if (result) {
    result->policy = policy_choice.label;
    result->seed = seed;
  }
  return result;
} catch (const Error& error) {
  throw error.within(fmt::format("{}, seed {}", policy_choice.label, seed));
}

// Runs seed by seed, so that all policies progress equally.
std::vector<std::optional<CellResult>> run_all(Run& run) {
  if (run.named != nullptr) {
    // Finds contradictory options, and reads the data with all threads.
    make_environment(run.named->spec(), run.seeds[0]);
  }
  const std::size_t count = run.policies.size();
  std::vector<std::optional<CellResult>> results(count * run.seeds.size());
  ThreadPool threads(run.threads);
  threads.parallel_for(results.size(), 1, [&](std::size_t i, std::size_t) {
    if (run.control.stop) {
      return;
    }
    try {
      results[i] = run_one(run, run.policies[i % count], run.seeds[i / count]);
      ++run.cells_done;
    } catch (...) {
      run.control.stop = true;
      throw;
    }
  });
  return results;
}

py::dict result_dict(const CellResult& result) {
  py::dict all;
  const auto add = [&](const char* name, const auto& points, const auto& value) {
    using Value = decltype(value(points[0]));
    py::array_t<Value> values(static_cast<py::ssize_t>(points.size()));
    for (std::size_t i = 0; i < points.size(); ++i) {
      values.mutable_data()[i] = value(points[i]);
    }
    all[name] = values;
  };
  const auto round = [](const auto& p) { return static_cast<std::int64_t>(p.round); };
  add("curve_rounds", result.curve, round);
  add("curve", result.curve, [](const RegretPoint& p) { return p.regret; });
  add("quality_rounds", result.quality, round);
  add("precision", result.quality, [](const QualityPoint& p) { return p.quality.precision; });
  add("recall", result.quality, [](const QualityPoint& p) { return p.quality.recall; });
  add("adjusted_rand", result.quality,
      [](const QualityPoint& p) { return p.quality.adjusted_rand; });
  all["policy"] = result.policy;
  all["seed"] = result.seed;
  all["regret"] = result.regret;
  all["reward"] = result.reward;
  all["seconds"] = result.seconds;
  all["training_steps"] = result.steps.training;
  all["adaptation_steps"] = result.steps.adaptation;
  all["memory"] = result.memory_bytes;
  return all;
}

// `progress(rounds done, rounds in all, runs done, runs in all)`, or None.
py::list run(const py::object& environment, const py::list& policies, std::uint64_t rounds,
             const std::vector<std::uint64_t>& seeds, std::size_t threads,
             const py::object& progress) {
  Run run;
  if (py::isinstance<NamedEnvironment>(environment)) {
    run.named = &py::cast<const NamedEnvironment&>(environment);
  } else {
    run.own = environment;
  }
  for (const py::handle entry : policies) {
    const auto pair = py::cast<std::pair<std::string, py::object>>(entry);
    PolicyChoice policy_choice{.label = pair.first, .spec = std::nullopt, .make = pair.second};
    if (py::isinstance<py::str>(pair.second)) {
      const std::vector<PolicySpec> named = parse_policies(py::cast<std::string>(pair.second));
      if (named.size() != 1) {
        refuse_value("policies", "one policy in each entry", py::cast<std::string>(pair.second));
      }
      policy_choice.spec =
          run.named == nullptr ? named.front() : fitted_to(run.named->spec(), named).front();
    }
    run.policies.push_back(std::move(policy_choice));
  }
  run.rounds = rounds;
  run.seeds = seeds;
  run.threads = threads;
  if (rounds == 0 || seeds.empty() || run.policies.empty()) {
    throw py::value_error("rounds, seeds, policies: expected at least one of each");
  }

  const std::size_t cells = run.policies.size() * seeds.size();
  std::vector<std::optional<CellResult>> results;
  Background background([&] { results = run_all(run); },
                        [&](bool wanted) {
                          run.control.stop = true;
                          if (run.named != nullptr) {
                            run.named->stop_reading(wanted);
                          }
                        });
  bool ended = false;
  do {
    ended = background.wait();
    if (!progress.is_none()) {
      progress(run.control.rounds_done.load(), rounds * cells, run.cells_done.load(), cells);
    }
  } while (!ended);

  background.finish();
  py::list all;
  for (const std::optional<CellResult>& result : results) {
    all.append(result_dict(*result));
  }
  return all;
}

py::list help_list(const std::vector<OptionHelp>& options) {
  py::list all;
  for (const OptionHelp& option : options) {
    py::dict one;
    one["name"] = option.name;
    one["help"] = option.help;
    one["expected"] = option.expected;
    one["default"] = option.standard;
    all.append(one);
  }
  return all;
}

py::dict policies_help() {
  py::dict all;
  for (const PolicyHelp& policy : experiment_policy_help()) {
    py::dict one;
    one["help"] = policy.help;
    one["paper"] = policy.paper;
    one["options"] = help_list(policy.options);
    all[py::str(policy.name)] = one;
  }
  return all;
}

py::dict environments_help() {
  py::dict all;
  for (const EnvironmentHelp& environment : environment_help()) {
    py::dict one;
    one["help"] = environment.help;
    one["options"] = help_list(environment.options);
    all[py::str(environment.name)] = one;
  }
  return all;
}

}  // namespace

void bind_runs(py::module_& module) {
  py::class_<NamedEnvironment>(module, "NamedEnvironment")
      .def(py::init<const std::string&, const OptionValues&, const std::vector<std::string>&,
                    const std::string&>(),
           py::arg("name"), py::arg("options"), py::arg("folders"), py::arg("prepared"))
      .def_property_readonly("name", [](const NamedEnvironment& e) { return e.spec().name; })
      .def_property_readonly("options",
                             [](const NamedEnvironment& e) { return all_options(e.spec()); });

  py::class_<World>(module, "World")
      .def(py::init<const NamedEnvironment&, std::uint64_t>(), py::arg("environment"),
           py::arg("seed"))
      .def_property_readonly("users", [](const World& w) { return w.get().user_count(); })
      .def_property_readonly("features", [](const World& w) { return w.get().inputs(); })
      .def_property_readonly("block", [](const World& w) { return w.get().block_length(); })
      .def_property_readonly("description", [](const World& w) { return w.get().description(); })
      .def_property_readonly("user_features",
                             [](const World& w) { return user_features_of(w.get()); })
      .def("start_data", &World::start_data)
      .def("next_round", &World::next_round)
      .def("true_cluster", &World::true_cluster, py::arg("arm"));

  module.def("run", &run, py::arg("environment"), py::arg("policies"), py::arg("rounds"),
             py::arg("seeds"), py::arg("threads"), py::arg("progress"));
  module.def("policies", &policies_help);
  module.def("environments", &environments_help);
}

}  // namespace mcnb::python
