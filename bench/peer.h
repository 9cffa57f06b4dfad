#pragma once

#include <map>
#include <string>
#include <vector>

namespace mcnb::bench {

// One row of a peer's CSV output, by heading.
using PeerRow = std::map<std::string, std::string>;

// A Python that can import torch: the first on the PATH, or Debian's own; empty where there is
// none.
std::string find_python_with_torch();

// Runs a script of bench/peers/ and returns the rows it printed; its messages go to standard error.
// Rows printed before a failure are kept, the failure is told on standard error.
std::vector<PeerRow> run_peer(const std::string& python, const std::string& script,
                              const std::vector<std::string>& arguments);

}  // namespace mcnb::bench
