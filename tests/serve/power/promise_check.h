#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/serve/power/recorded_service.h"

namespace mcnb::power {

// Starts the service in a folder that a power cut at this moment has left, and says which of the
// promises made before are broken: every acknowledged decision and reward is there once, nothing
// is left of forgotten users, the latest state is the one that the oldest snapshot and the log
// give, acknowledged backups are whole, and the service serves. Changes the folder.
std::vector<std::string> broken_promises(const std::filesystem::path& folder,
                                         const Promises& promises, Moment cut);

// What a start of the service does to the files of such a folder, with the work that it takes up
// again. `begin` gets the number of operations that stand for what was there before. A service that
// does not start does something, too.
Recording record_start(const std::filesystem::path& folder, const Promises& promises,
                       Moment& begin);

}  // namespace mcnb::power
