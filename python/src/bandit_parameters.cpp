// The networks of M-CNB as arrays of Python.

#include <fmt/core.h>
#include <pybind11/stl.h>

#include <utility>

#include "mcnb/bandit/mcnb/mcnb.h"
#include "mcnb/base/error.h"
#include "python/src/bandit.h"

namespace mcnb::python {
namespace {

std::string layer_name(std::uint32_t layer) { return fmt::format("values[{}]", layer - 1); }

Shape layer_shape(const NetworkShape& shape, std::uint32_t layer) {
  const std::size_t rows = shape.layer_inputs(layer) + (shape.biases ? 1 : 0);
  const std::size_t columns = layer == shape.depth ? 1 : shape.width;
  return {static_cast<py::ssize_t>(rows), static_cast<py::ssize_t>(columns)};
}

// W_1 .. W_L as arrays that are views of `parameters`, which lives as long as `owner`.
py::list layers_of(const NetworkShape& shape, const float* parameters, const py::capsule& owner) {
  py::list layers;
  for (std::uint32_t layer = 1; layer <= shape.depth; ++layer) {
    py::array_t<float> weights(layer_shape(shape, layer), parameters + shape.layer_offset(layer),
                               owner);
    weights.attr("flags").attr("writeable") = false;
    layers.append(weights);
  }
  return layers;
}

std::vector<float> parameters_from(const NetworkShape& shape, py::handle values) {
  if (!py::isinstance<py::sequence>(values) || py::isinstance<py::str>(values) ||
      py::len(values) != shape.depth) {
    refuse_value("values", fmt::format("a list of {} arrays, as parameters() gives", shape.depth),
                 py::hasattr(values, "__len__")
                     ? fmt::format("a {} of {}",
                                   py::cast<std::string>(py::type::of(values).attr("__name__")),
                                   py::len(values))
                     : py::cast<std::string>(py::type::of(values).attr("__name__")));
  }
  std::vector<float> parameters(shape.parameter_count());
  std::uint32_t layer = 0;
  for (const py::handle value : py::reinterpret_borrow<py::sequence>(values)) {
    ++layer;
    const Shape expected = layer_shape(shape, layer);
    const std::string text = fmt::format("numbers of shape ({}, {})", expected[0], expected[1]);
    const std::string name = layer_name(layer);
    const Floats weights = floats_of(value, name.c_str(), text);
    if (weights.ndim() != 2 || weights.shape(0) != expected[0] || weights.shape(1) != expected[1]) {
      refuse_value(name, text, "shape " + shape_text(weights));
    }
    check_finite(weights, name.c_str());
    std::copy_n(weights.data(), weights.size(), parameters.data() + shape.layer_offset(layer));
  }
  return parameters;
}

}  // namespace

Mcnb& Bandit::networks() {
  auto* mcnb = dynamic_cast<Mcnb*>(model_->policy.get());
  if (mcnb == nullptr) {
    throw Error(ErrorKind::kUsage,
                fmt::format("policy {}: it shows no parameters; mcnb with device=cpu does",
                            setup_.policy.name));
  }
  return *mcnb;
}

// The meta-learner never moves in memory, so arrays can be views of it. Users' networks may move.
py::list Bandit::parameters(py::handle who) {
  if (py::isinstance<py::str>(who)) {
    if (py::cast<std::string>(who) != "meta") {
      refuse_value("who", "\"meta\" or a user", py::cast<std::string>(py::repr(who)));
    }
    std::shared_ptr<Model> model;
    const NetworkShape* shape = nullptr;
    const float* parameters = nullptr;
    {
      const BanditLock lock(mutex_);
      model = model_;
      const Mcnb& mcnb = networks();
      shape = &mcnb.user_learners().shape();
      parameters = mcnb.meta_learner().parameters().data();
    }
    auto* kept = new std::shared_ptr<Model>(std::move(model));
    const py::capsule owner(
        kept, [](void* memory) { delete static_cast<std::shared_ptr<Model>*>(memory); });
    return layers_of(*shape, parameters, owner);
  }
  const UserId user = known_user(who, "who");
  auto copy = std::make_unique<std::vector<float>>();
  NetworkShape shape;
  {
    const BanditLock lock(mutex_);
    const Mcnb& mcnb = networks();
    shape = mcnb.user_learners().shape();
    const std::span<const float> own = mcnb.user_learners().parameters(mcnb.learner_of(user));
    copy->assign(own.begin(), own.end());
  }
  const float* values = copy->data();
  const py::capsule owner(copy.release(),
                          [](void* memory) { delete static_cast<std::vector<float>*>(memory); });
  return layers_of(shape, values, owner);
}

void Bandit::set_parameters(py::handle who, py::handle values) {
  const bool meta = py::isinstance<py::str>(who);
  if (meta && py::cast<std::string>(who) != "meta") {
    refuse_value("who", "\"meta\" or a user", py::cast<std::string>(py::repr(who)));
  }
  const UserId user = meta ? UserId{} : known_user(who, "who");
  NetworkShape shape;
  {
    const BanditLock lock(mutex_);
    shape = std::as_const(networks()).user_learners().shape();
  }
  const std::vector<float> parameters = parameters_from(shape, values);
  const BanditLock lock(mutex_);
  Mcnb& mcnb = networks();
  if (meta) {
    std::ranges::copy(parameters, mcnb.meta_learner().parameters().begin());
  } else {
    mcnb.user_learners().set_parameters(mcnb.learner_of(user), parameters);
  }
}

}  // namespace mcnb::python
