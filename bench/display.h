#pragma once

#include <string>

#include "mcnb/base/text_table.h"

namespace mcnb::bench {

// Shows people what a benchmark does and measures. Not thread-safe.
class Display {
 public:
  virtual ~Display() = default;
  virtual void say(const std::string& text) = 0;
  // `exact` has the same for programs, with numbers that are not rounded; `name` is its name.
  virtual void show(const std::string& name, const TextTable& shown, const TextTable& exact) = 0;
};

}  // namespace mcnb::bench
