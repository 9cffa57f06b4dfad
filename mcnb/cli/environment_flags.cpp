#include "mcnb/cli/environment_flags.h"

#include <cstdlib>

#include "mcnb/environment/data_source.h"

namespace mcnb {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOfPackages = "/usr/share/datasets";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A folder of the user by the XDG rules; empty for a user without a home.
fs::path user_folder(const char* name, const char* below_home) {
  const fs::path given = variable(name);
  if (given.is_absolute()) {
    return given / "mcnb";
  }
  const std::string home = variable("HOME");
  return home.empty() ? fs::path() : fs::path(home) / below_home / "mcnb";
}

}  // namespace

std::vector<fs::path> data_roots(const std::string& flag) {
  std::vector<fs::path> roots;
  if (!flag.empty()) {
    roots.emplace_back(flag);
  } else if (const std::string given = variable("MCNB_DATA"); !given.empty()) {
    roots.emplace_back(given);
  } else if (const fs::path own = user_folder("XDG_DATA_HOME", ".local/share"); !own.empty()) {
    roots.push_back(own);
  }
  roots.emplace_back(kOfPackages);
  return roots;
}

fs::path prepared_folder() { return user_folder("XDG_CACHE_HOME", ".cache"); }

std::shared_ptr<DataSource> data_source(const std::string& data) {
  return make_data_source({.folders = data_roots(data), .prepared = prepared_folder()});
}

OptionValues read_settings(const std::vector<std::string>& settings) {
  OptionValues values;
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      refuse_option("set", "name=value", setting);
    }
    values[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return values;
}

EnvironmentSpec read_environment(const std::string& name, const std::vector<std::string>& settings,
                                 const std::string& data) {
  return {.name = name, .options = read_settings(settings), .data = data_source(data)};
}

}  // namespace mcnb
