#include "mcnb/bandit/policies.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "mcnb/bandit/policy_kinds.h"
#include "mcnb/base/check.h"
#include "mcnb/base/error.h"

namespace mcnb {
namespace {

// In the order of their names.
// clang-format off
const std::array kPolicies{
    club_policy(),
    cofiba_policy(),
    epsilon_greedy_policy(),
    kernelucb_policy(),
    linucb_policy(),
    locb_policy(),
    mcnb_policy(),
    neuau_policy(),
    neural_linear_policy(),
    neuralts_policy(),
    neuucb_ind_policy(),
    neuucb_one_policy(),
    random_policy(),
    sclub_policy(),
};
// clang-format on

const StateHeader kPolicyFile{.kind = "policy", .version = 1};
constexpr std::uint64_t kLongestText = 1 << 16;
constexpr std::uint64_t kMostOptions = 1 << 12;

[[noreturn]] void refuse_text(const std::string& text, const std::string& why) {
  throw Error(
      ErrorKind::kUsage,
      fmt::format("policy \"{}\": {}; expected name or name:option=value:option=value", text, why));
}

const PolicyKind& find_kind(const std::string& name) {
  std::string known;
  for (const PolicyKind& kind : kPolicies) {
    if (kind.name == name) {
      return kind;
    }
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
  }
  throw Error(ErrorKind::kUsage, fmt::format("policy \"{}\": expected one of {}", name, known));
}

// Runs `action`; an error of it comes back with the policy's name in front.
template <class Action>
auto naming(const PolicyKind& kind, Action action) {
  try {
    return action();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("policy {}: {}", kind.name, error.what()));
  }
}

// Tells other features of the users apart (FNV-1a over their bits).
std::string checksum_text(std::span<const float> values) {
  std::uint64_t sum = 0xcbf29ce484222325ULL;
  for (const float value : values) {
    sum = (sum ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3ULL;
  }
  return fmt::format("{:016x}", sum);
}

// All that a saved state depends on, by name: what a load has to agree with. Options count with the
// values they have, however they got them.
std::map<std::string, std::string> identity(const PolicySpec& spec, const PolicySetup& setup) {
  std::map<std::string, std::string> all;
  for (const auto& [name, value] : resolved_options(spec)) {
    all["option " + name] = value;
  }
  all["policy"] = spec.name;
  all["inputs"] = std::to_string(setup.inputs);
  all["users at the start"] = std::to_string(setup.users);
  all["features of a user"] = std::to_string(setup.user_feature_count);
  all["what users look like"] = checksum_text(setup.user_features);
  all["features of a block"] = std::to_string(setup.block_length);
  all["seed"] = std::to_string(setup.seed);
  return all;
}

std::map<std::string, std::string> read_identity(StateReader& reader) {
  const auto count = reader.read<std::uint64_t>();
  if (count > kMostOptions) {
    reader.fail("a policy has more options than it can have");
  }
  std::map<std::string, std::string> all;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string name = reader.read_string(kLongestText);
    all[std::move(name)] = reader.read_string(kLongestText);
  }
  return all;
}

// Throws Error (kUsage) that names what differs.
void compare(const std::string& path, const std::map<std::string, std::string>& saved,
             const std::map<std::string, std::string>& asked) {
  const auto value_in = [](const std::map<std::string, std::string>& all, const std::string& name) {
    const auto found = all.find(name);
    return found == all.end() ? std::string("nothing") : "\"" + found->second + "\"";
  };
  const auto refuse = [&](const std::string& name) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: {}: the file was saved with {}, asked for is {}", path, name,
                            value_in(saved, name), value_in(asked, name)));
  };
  if (value_in(saved, "policy") != value_in(asked, "policy")) {
    refuse("policy");  // else an option that only one of them has would be named
  }
  for (const auto& all : {saved, asked}) {
    for (const auto& [name, value] : all) {
      if (value_in(saved, name) != value_in(asked, name)) {
        refuse(name);
      }
    }
  }
}

}  // namespace

PolicySpec parse_policy(const std::string& text) {
  PolicySpec spec{.label = text};
  std::size_t end = std::min(text.find(':'), text.size());
  spec.name = text.substr(0, end);
  if (spec.name.empty()) {
    refuse_text(text, "no name");
  }
  while (end < text.size()) {
    const std::size_t begin = end + 1;
    end = std::min(text.find(':', begin), text.size());
    const std::string option = text.substr(begin, end - begin);
    const std::size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0) {
      refuse_text(text, fmt::format("\"{}\" is no option", option));
    }
    const std::string name = option.substr(0, equals);
    if (!spec.options.emplace(name, option.substr(equals + 1)).second) {
      refuse_text(text, fmt::format("option {} is given twice", name));
    }
  }
  const PolicyKind& kind = find_kind(spec.name);
  naming(kind, [&] { kind.resolve(spec.options); });
  return spec;
}

OptionValues resolved_options(const PolicySpec& spec) {
  const PolicyKind& kind = find_kind(spec.name);
  return naming(kind, [&] { return kind.resolve(spec.options); });
}

std::vector<PolicyHelp> policy_help() {
  std::vector<PolicyHelp> all;
  for (const PolicyKind& kind : kPolicies) {
    all.push_back({kind.name, kind.help, kind.paper, kind.options()});
  }
  return all;
}

std::unique_ptr<Policy> make_policy(const PolicySpec& spec, const PolicySetup& setup) {
  check(setup.threads != nullptr, "a policy has threads to run on");
  const PolicyKind& kind = find_kind(spec.name);
  return naming(kind, [&] { return kind.build(spec.options, setup); });
}

void save_policy_file(const std::string& path, const PolicySpec& spec, const PolicySetup& setup,
                      const Policy& policy) {
  save_state_file(path, kPolicyFile, [&](StateWriter& writer) {
    const std::map<std::string, std::string> all = identity(spec, setup);
    writer.write(static_cast<std::uint64_t>(all.size()));
    for (const auto& [name, value] : all) {
      writer.write_string(name);
      writer.write_string(value);
    }
    policy.save(writer);
  });
}

std::unique_ptr<Policy> load_policy_file(const std::string& path, const PolicySpec& spec,
                                         const PolicySetup& setup) {
  std::unique_ptr<Policy> policy;
  load_state_file(path, kPolicyFile, [&](StateReader& reader) {
    compare(path, read_identity(reader), identity(spec, setup));
    policy = make_policy(spec, setup);
    policy->load(reader);
  });
  return policy;
}

}  // namespace mcnb
