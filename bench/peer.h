#pragma once

#include <map>
#include <string>
#include <vector>

namespace mcnb::bench {

// One row of a peer's CSV output, by heading.
struct PeerRow {
  std::map<std::string, std::string> texts;
  std::map<std::string, double> numbers;
};

// A Python that can import torch: Debian's own, or the first on the PATH; empty if neither can.
std::string find_python_with_torch();

// Runs a script of bench/peers/ and returns the rows it printed; its messages go to standard error.
// Keeps the rows printed before a failure and reports the failure on standard error. Rows that lack
// a column are reported and left out. `numbers` names the columns that hold numbers.
std::vector<PeerRow> run_peer(const std::string& python, const std::string& script,
                              const std::vector<std::string>& arguments,
                              const std::vector<std::string>& texts,
                              const std::vector<std::string>& numbers);

}  // namespace mcnb::bench
