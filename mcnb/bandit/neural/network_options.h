#pragma once

#include <cstdint>

#include "mcnb/base/options.h"
#include "mcnb/numeric/network.h"

namespace mcnb {

// The size and the start of a policy's networks.
struct NetworkOptions {
  std::uint64_t width = 100;  // m
  std::uint64_t depth = 2;    // L
  Initialisation initialisation = Initialisation::kPaper;
  bool biases = false;

  NetworkShape shape(std::uint32_t inputs) const;
};

OptionTable<NetworkOptions> network_option_table();

}  // namespace mcnb
