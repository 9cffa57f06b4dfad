#pragma once

#include <string>

#include "mcnb/experiment/plan/plan.h"
#include "tests/temporary_folder.h"

namespace mcnb::plan_cases {

inline Plan plan_from(const TemporaryFolder& folder, const std::string& text) {
  put_file(folder / "plan.toml", text);
  return read_plan(folder / "plan.toml");
}

// Two policies in a small environment; more fields of [environment] may follow.
inline constexpr const char* kSmall = R"(
title = "A small one"
environments = ["synthetic:users=8"]
policies = ["linucb", "random"]
rounds = 100
seeds = 2
[environment]
items = 0
arms = 4
)";

}  // namespace mcnb::plan_cases
