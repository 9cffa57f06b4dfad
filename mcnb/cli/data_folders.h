#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "mcnb/environment/environments.h"

namespace mcnb {

// Where data sets are looked for: in the folder of the flag --data, else of MCNB_DATA, else in the
// user's data folder; and where packages of the system put them.
std::vector<std::filesystem::path> data_roots(const std::string& flag);

// Where prepared data is kept: below the user's cache folder. Empty where there is none.
std::filesystem::path prepared_folder();

// Data sets from the folders of the flag --data, prepared in the user's cache folder.
std::shared_ptr<DataSource> data_source(const std::string& data);

// "name=value" settings. Throws Error (kUsage) for settings that are none.
OptionValues read_settings(const std::vector<std::string>& settings);

// An environment as the command line names it: its name, "option=value" settings, and the flag
// --data. Throws Error (kUsage) for settings that are none.
EnvironmentSpec read_environment(const std::string& name, const std::vector<std::string>& settings,
                                 const std::string& data);

}  // namespace mcnb
