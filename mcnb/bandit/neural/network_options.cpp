#include "mcnb/bandit/neural/network_options.h"

namespace mcnb {

NetworkShape NetworkOptions::shape(std::uint32_t inputs) const {
  return {.inputs = inputs,
          .width = static_cast<std::uint32_t>(width),
          .depth = static_cast<std::uint32_t>(depth),
          .biases = biases};
}

OptionTable<NetworkOptions> network_option_table() {
  using Options = NetworkOptions;
  OptionTable<Options> table;
  table.count("width", &Options::width, {1, NetworkShape::kMaxWidth}, "hidden units of a layer, m")
      .count("depth", &Options::depth, {2, NetworkShape::kMaxDepth}, "weight matrices, L")
      .choice("initialisation", &Options::initialisation,
              {{"paper", Initialisation::kPaper}, {"symmetric", Initialisation::kSymmetric}},
              "how networks start; symmetric starts with f = 0")
      .yes_no("biases", &Options::biases, "whether layers have biases");
  return table;
}

}  // namespace mcnb
