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

// A Python that can import torch: Debian's own, or the first on the PATH; empty where there is
// none.
std::string find_python_with_torch();

// Runs a script of bench/peers/ and returns the rows it printed; its messages go to standard error.
// Rows printed before a failure are kept, the failure is told on standard error. So are rows that
// lack one of the columns; they are left out. `numbers` are those to be read as numbers.
std::vector<PeerRow> run_peer(const std::string& python, const std::string& script,
                              const std::vector<std::string>& arguments,
                              const std::vector<std::string>& texts,
                              const std::vector<std::string>& numbers);

}  // namespace mcnb::bench
