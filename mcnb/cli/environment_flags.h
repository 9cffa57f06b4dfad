#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "mcnb/environment/environments.h"

namespace mcnb {

// The folders that are searched for data sets: that of the flag --data, else that of MCNB_DATA,
// else the user's data folder; then the folder of Debian's data packages.
std::vector<std::filesystem::path> data_roots(const std::string& flag);

// The folder for prepared data, below the user's cache folder. Empty for a user without a home.
std::filesystem::path prepared_folder();

// Reads data sets from data_roots and keeps prepared data in prepared_folder.
std::shared_ptr<DataSource> data_source(const std::string& data);

// Reads settings "name=value". Throws Error (kUsage) for a text of another form.
OptionValues read_settings(const std::vector<std::string>& settings);

// The environment of a command line: its name, its settings "option=value", and the flag --data.
// Throws Error (kUsage) as read_settings does.
EnvironmentSpec read_environment(const std::string& name, const std::vector<std::string>& settings,
                                 const std::string& data);

}  // namespace mcnb
