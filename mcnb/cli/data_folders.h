#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mcnb {

// Where data sets are looked for: in the folder of the flag --data, else of MCNB_DATA, else in the
// user's data folder; and where packages of the system put them.
std::vector<std::filesystem::path> data_roots(const std::string& flag);

// Where prepared data is kept: below the user's cache folder. Empty where there is none.
std::filesystem::path prepared_folder();

}  // namespace mcnb
