#include "mcnb/environment/environments.h"

#include <functional>

#include "mcnb/environment/synthetic.h"

namespace mcnb {
namespace {

struct Entry {
  std::string name;
  std::string help;
  std::vector<OptionHelp> options;
  std::function<OptionValues(const OptionValues&)> all_options;
  std::function<std::unique_ptr<Environment>(const OptionValues&, std::uint64_t seed)> make;
};

template <class World, class Options>
Entry entry(std::string name, std::string help, const OptionTable<Options>& table) {
  const auto read = [&table](const OptionValues& values) {
    Options options;
    table.set_all(options, values);
    return options;
  };
  return {.name = std::move(name),
          .help = std::move(help),
          .options = table.help(),
          .all_options = [=, &table](const OptionValues& v) { return table.values(read(v)); },
          .make = [=](const OptionValues& values,
                      std::uint64_t seed) { return std::make_unique<World>(read(values), seed); }};
}

// One line per environment.
const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      entry<SyntheticWorld>("synthetic", "users in true clusters with known reward functions",
                            synthetic_option_table()),
  };
  return all;
}

const Entry& find_entry(const std::string& name) {
  std::string known;
  for (const Entry& entry : entries()) {
    if (entry.name == name) {
      return entry;
    }
    known += (known.empty() ? "" : ", ") + entry.name;
  }
  refuse_option("environment", "one of " + known, name);
}

}  // namespace

std::vector<EnvironmentHelp> environment_help() {
  std::vector<EnvironmentHelp> all;
  for (const Entry& entry : entries()) {
    all.push_back({entry.name, entry.help, entry.options});
  }
  return all;
}

OptionValues all_options(const EnvironmentSpec& spec) {
  return find_entry(spec.name).all_options(spec.options);
}

std::unique_ptr<Environment> make_environment(const EnvironmentSpec& spec, std::uint64_t seed) {
  return find_entry(spec.name).make(spec.options, seed);
}

}  // namespace mcnb
