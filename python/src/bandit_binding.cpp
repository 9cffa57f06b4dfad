// The Python interface of a bandit.

#include <fmt/core.h>
#include <pybind11/stl.h>

#include <cmath>
#include <utility>

#include "mcnb/bandit/exploration.h"
#include "mcnb/numeric/network_pool.h"
#include "python/src/bandit.h"

namespace mcnb::python {
namespace {

std::unique_ptr<Bandit> make_bandit(const std::string& policy, const OptionValues& options,
                                    std::int64_t features, std::int64_t users, std::uint64_t seed,
                                    std::int64_t threads, std::int64_t block,
                                    py::handle user_features, const std::string& device) {
  const auto check_count = [](const char* name, std::int64_t value, std::int64_t low,
                              std::int64_t high) {
    if (value < low || value > high) {
      refuse_value(name, fmt::format("{} to {}", low, high), std::to_string(value));
    }
  };
  check_count("features", features, 1, NetworkShape::kMaxInputs);
  check_count("users", users, 1, NetworkPool::kMaxUsers);
  check_count("threads", threads, 0, ThreadPool::kMaxThreads);
  check_count("block", block, 0, features);
  if (block > 0 && features % block != 0) {
    refuse_value("block", fmt::format("a divisor of features, which is {}", features),
                 std::to_string(block));
  }
  PolicySpec spec = parse_policy(policy);
  for (const auto& [name, value] : options) {
    if (!spec.options.emplace(name, value).second) {
      refuse_value("options", fmt::format("{} once, in \"{}\" or beside it", name, policy), "both");
    }
  }
  pin_options(spec);  // throws if an option is wrong
  BanditSetup setup{.policy = std::move(spec),
                    .features = static_cast<std::uint32_t>(features),
                    .users = static_cast<std::size_t>(users),
                    .seed = seed,
                    .threads = static_cast<std::size_t>(threads),
                    .block = static_cast<std::uint32_t>(block),
                    .device = parse_device(device)};
  if (!user_features.is_none()) {
    const std::string expected = fmt::format("numbers of shape ({}, features)", users);
    const Floats read = floats_of(user_features, "user_features", expected);
    if (read.ndim() != 2 || read.shape(0) != users || read.shape(1) == 0) {
      refuse_value("user_features", expected, "shape " + shape_text(read));
    }
    check_finite(read, "user_features");
    setup.user_features.assign(read.data(), read.data() + read.size());
    setup.user_feature_count = static_cast<std::size_t>(read.shape(1));
  }
  const py::gil_scoped_release release;
  return std::unique_ptr<Bandit>(::new Bandit(setup));
}

// Returns true if __init__ of a Bandit has succeeded.
bool is_made(py::handle bandit) {
  if (!py::isinstance<Bandit>(bandit)) {
    refuse_type("bandit", "a Bandit", bandit);
  }
  return reinterpret_cast<py::detail::instance*>(bandit.ptr())
      ->get_value_and_holder()
      .holder_constructed();
}

void bind_making(py::class_<Bandit>& bandit) {
  bandit
      .def(py::init(&make_bandit), py::arg("policy"), py::arg("options"), py::arg("features"),
           py::arg("users"), py::arg("seed"), py::arg("threads"), py::arg("block"),
           py::arg("user_features"), py::arg("device"))
      .def(py::init([](const std::string& path, std::size_t threads, const std::string& device) {
             return Bandit::load(path, threads, parse_device(device));
           }),
           py::kw_only(), py::arg("path"), py::arg("threads"), py::arg("device"))
      .def(py::init([](const py::bytes& state, const std::string& device) {
             return Bandit::from_bytes(state, parse_device(device));
           }),
           py::kw_only(), py::arg("state"), py::arg("device"))
      .def("save", &Bandit::save, py::arg("path"))
      .def("to_bytes", [](Bandit& self) { return py::bytes(self.bytes()); });
}

void bind_decisions(py::class_<Bandit>& bandit) {
  const py::object none = py::none();
  bandit
      .def("choose", &Bandit::choose, py::arg("user"), py::arg("arms"), py::kw_only(),
           py::arg("items") = none, py::arg("offsets") = none, py::arg("round") = none,
           "The index of the chosen arm; for a batch of rounds, an array of indices.")
      .def("predict", &Bandit::predict, py::arg("user"), py::arg("arms"), py::kw_only(),
           py::arg("items") = none, py::arg("offsets") = none, py::arg("round") = none,
           py::arg("exploit") = false,
           "The arm that choose would return now, without recording a decision. With exploit=True, "
           "the\n"
           "arm with the highest expected reward.")
      .def("scores", &Bandit::scores, py::arg("user"), py::arg("arms"), py::kw_only(),
           py::arg("items") = none, py::arg("offsets") = none, py::arg("round") = none,
           "The scores of all arms: a structured array with the fields value, estimate, one field "
           "for\n"
           "each part of the score, cluster_size and considered. With scan=sampled cluster_size is "
           "an\n"
           "estimate: cluster_found members were met among cluster_visited learners. After choose "
           "with\n"
           "the same user and arms they explain that decision; otherwise, or with a round, they "
           "are those of a\n"
           "decision that is still to come.")
      .def("predict_expectations", &Bandit::expectations, py::arg("user"), py::arg("arms"),
           py::kw_only(), py::arg("items") = none, py::arg("offsets") = none,
           py::arg("round") = none, "The expected reward of every arm.")
      .def("cluster", &Bandit::cluster, py::arg("user"), py::arg("arm"), py::kw_only(),
           py::arg("item") = none, py::arg("offset") = none,
           "The users whom the policy now takes to agree with this user about this arm; None for\n"
           "policies that do not cluster. For a batch of arms, a list.")
      .def("time_choose", &Bandit::time_choose, py::arg("user"), py::arg("arms"),
           py::arg("rounds"));
}

void bind_learning(py::class_<Bandit>& bandit) {
  const py::object none = py::none();
  bandit
      .def("learn", &Bandit::learn, py::arg("user"), py::arg("arm"), py::arg("reward"),
           py::kw_only(), py::arg("item") = none, py::arg("offset") = none, py::arg("round") = none,
           py::arg("index") = none,
           "Learns the reward of an arm of the last decision, or of an earlier round if round and\n"
           "index are given.")
      .def("start", &Bandit::start, py::arg("user"), py::arg("arm"), py::arg("reward"),
           py::kw_only(), py::arg("offset") = none,
           "Learns one sample that is known about a user before the first round.")
      .def("decide", &Bandit::decide, py::arg("arm"))
      .def("learn_log", &Bandit::learn_log, py::arg("log"), py::arg("passes"), py::arg("weighted"),
           py::arg("most_weight"))
      .def("user_number", &Bandit::user_number, py::arg("name"))
      .def("add_users", &Bandit::add_users, py::arg("count"),
           "Adds users. Their numbers follow those of the present users.")
      .def("forget", &Bandit::forget, py::arg("user"),
           "Resets a user. Returns False if the policy cannot tell users apart.")
      .def("reset", &Bandit::reset, "Resets the bandit to its state before it learned anything.")
      .def("parameters", &Bandit::parameters, py::arg("who"),
           "The weights [W_1, ..., W_L] of a network: views for \"meta\", copies for a user.\n"
           "With two layers, f(x) = relu(x @ W_1) @ W_2.")
      .def("set_parameters", &Bandit::set_parameters, py::arg("who"), py::arg("values"),
           "Replaces the weights of \"meta\" or of a user.");
}

void bind_properties(py::class_<Bandit>& bandit) {
  bandit.def_property_readonly("policy", [](const Bandit& b) { return b.setup().policy.name; })
      .def_property_readonly("options",
                             [](const Bandit& b) { return resolved_options(b.setup().policy); })
      .def_property_readonly("features", [](const Bandit& b) { return b.setup().features; })
      .def_property_readonly("block", [](const Bandit& b) { return b.setup().block; })
      .def_property_readonly("seed", [](const Bandit& b) { return b.setup().seed; })
      .def_property_readonly("device",
                             [](const Bandit& b) { return device_name(b.setup().device); })
      .def_property_readonly("threads", [](const Bandit& b) { return b.setup().threads; })
      .def_property_readonly("users", &Bandit::users)
      .def_property_readonly("user_names", &Bandit::user_names)
      .def_property_readonly("last_round", &Bandit::last_round)
      .def_property_readonly("memory", &Bandit::memory_bytes)
      .def_property_readonly("steps", [](Bandit& self) {
        const StepCounts counts = self.steps();
        py::dict steps;
        steps["training"] = counts.training;
        steps["adaptation"] = counts.adaptation;
        return steps;
      });
}

// The probabilities of arms with these estimates and values; arms whose value is minus infinity
// were not considered.
std::vector<double> probabilities_of(const std::string& exploration,
                                     const std::vector<double>& estimates,
                                     const std::vector<double>& values) {
  std::vector<Score> scores;
  for (std::size_t i = 0; i < estimates.size(); ++i) {
    scores.emplace_back(estimates[i]);
    scores.back().value = values.at(i);
    scores.back().considered = std::isfinite(values[i]);
  }
  return choice_probabilities(parse_exploration(exploration), scores);
}

}  // namespace

void bind_bandit(py::module_& module) {
  module.def(
      "choice_probabilities",
      [](const std::string& exploration, const std::vector<double>& estimates,
         const std::vector<double>& values) {
        const std::vector<double> found = probabilities_of(exploration, estimates, values);
        return py::array_t<double>(static_cast<py::ssize_t>(found.size()), found.data());
      },
      py::arg("exploration"), py::arg("estimates"), py::arg("values"));
  module.def("is_made", &is_made, py::arg("bandit"));
  py::class_<Bandit> bandit(module, "Bandit");
  bind_making(bandit);
  bind_decisions(bandit);
  bind_learning(bandit);
  bind_properties(bandit);
}

}  // namespace mcnb::python
