// What policies would have earned on a log, from Python.

#include <fmt/core.h>
#include <pybind11/stl.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mcnb/base/error.h"
#include "mcnb/evaluate/evaluation.h"
#include "mcnb/evaluate/evaluation_report.h"
#include "mcnb/evaluate/policies/policy_rounds.h"
#include "python/src/bandit.h"
#include "python/src/logs.h"

namespace mcnb::python {
namespace {

constexpr double kMostSumError = 1e-6;

// A function of Python that takes a round and returns the probabilities of its actions.
class FunctionTarget : public TargetPolicy {
 public:
  FunctionTarget(std::string name, py::object function)
      : name_(std::move(name)), function_(std::move(function)) {}
  ~FunctionTarget() override {
    const py::gil_scoped_acquire acquire;
    function_ = py::object();
  }
  FunctionTarget(const FunctionTarget&) = delete;
  FunctionTarget& operator=(const FunctionTarget&) = delete;

  bool needs_features() const override { return true; }

  void probabilities(const RoundView& view, std::span<double> actions) override {
    const py::gil_scoped_acquire acquire;
    const py::object given = function_(round_tuple(view.round));
    const auto array =
        py::array_t<double, py::array::c_style | py::array::forcecast>::ensure(given);
    double sum = 0.0;
    bool sound =
        array && array.ndim() == 1 && static_cast<std::size_t>(array.size()) == actions.size();
    for (std::size_t i = 0; sound && i < actions.size(); ++i) {
      actions[i] = array.data()[i];
      sound = actions[i] >= 0.0 && (actions[i] == 0.0 || view.round.is_eligible(i));
      sum += actions[i];
    }
    if (!sound || !(std::abs(sum - 1.0) <= kMostSumError)) {
      PyErr_Clear();
      throw py::value_error(
          fmt::format("policy {}: expected the probabilities of {} actions, which add up to 1, got "
                      "{}",
                      name_, actions.size(), py::cast<std::string>(py::repr(given))));
    }
  }

 private:
  std::string name_;
  py::object function_;
};

// A bandit, which does not learn meanwhile. Strangers among the users are like users without
// feedback: a copy of the bandit gets them.
class BanditTarget : public TargetPolicy {
 public:
  BanditTarget(std::unique_ptr<Bandit> bandit, const std::string& exploration)
      : bandit_(std::move(bandit)), exploration_(parse_exploration(exploration)) {}

  bool needs_features() const override { return true; }

  void probabilities(const RoundView& view, std::span<double> actions) override {
    const std::size_t dimension = view.features.size() / actions.size();
    if (dimension != bandit_->setup().features) {
      throw Error(ErrorKind::kInput,
                  fmt::format("the bandit takes {} features, the log has {}: see dimension=",
                              bandit_->setup().features, dimension));
    }
    Policy& policy = *bandit_->model()->policy;
    set_explored(view, policy, bandit_->names().of(view.round.user, policy), exploration_, actions);
  }

 private:
  std::unique_ptr<Bandit> bandit_;  // a copy
  Exploration exploration_;
};

using Targets = std::map<std::string, std::unique_ptr<TargetPolicy>>;

// Of (name, function) and (name, bandit, exploration).
Targets targets_of(const std::vector<py::tuple>& own) {
  Targets targets;
  for (const py::tuple& one : own) {
    const auto name = py::cast<std::string>(one[0]);
    if (py::isinstance<Bandit>(one[1])) {
      auto& bandit = py::cast<Bandit&>(one[1]);
      targets[name] = std::make_unique<BanditTarget>(
          Bandit::from_bytes(bandit.bytes(), bandit.setup().device), py::cast<std::string>(one[2]));
    } else {
      targets[name] = std::make_unique<FunctionTarget>(name, py::object(one[1]));
    }
  }
  return targets;
}

// Returns the tables for people, and everything as JSON.
py::tuple evaluate(const Log& log, const std::vector<std::string>& policies,
                   const std::vector<py::tuple>& own, const std::string& baseline,
                   const std::vector<std::string>& estimators, double lowest, double highest,
                   std::uint64_t dimension, const std::string& model, double lambda,
                   std::uint64_t replicates, std::uint64_t seed) {
  const Targets targets = targets_of(own);
  EvaluationOptions options{.policies = policies,
                            .baseline = baseline,
                            .dimension = dimension,
                            .model = parse_reward_model(model),
                            .lambda = lambda,
                            .replicates = replicates,
                            .seed = seed,
                            .lowest_reward = lowest,
                            .highest_reward = highest};
  for (const auto& [name, target] : targets) {
    options.own[name] = target.get();
  }
  if (!estimators.empty()) {
    options.estimators.clear();
    for (const std::string& name : estimators) {
      options.estimators.push_back(parse_estimator(name));
    }
  }
  std::string tables;
  std::string json;
  {
    const py::gil_scoped_release release;
    ThreadPool threads(0);
    const Evaluation evaluation =
        evaluate_log([&](bool features, const VisitRound& visit) { log.read(features, visit); },
                     options, threads);
    tables = log_table(evaluation).aligned() + "\n" + weights_table(evaluation).aligned() + "\n" +
             estimates_table(evaluation, false).aligned();
    if (!evaluation.learning.empty()) {
      tables += "\n" + learning_table(evaluation).aligned();
    }
    json = evaluation_json(evaluation);
  }
  return py::make_tuple(tables, json);
}

}  // namespace

void bind_evaluation(py::module_& module) {
  module.def("evaluate", &evaluate, py::arg("log"), py::arg("policies"), py::arg("own"),
             py::arg("baseline"), py::arg("estimators"), py::arg("lowest"), py::arg("highest"),
             py::arg("dimension"), py::arg("model"), py::arg("penalty"), py::arg("replicates"),
             py::arg("seed"));
}

}  // namespace mcnb::python
