#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mcnb {

// Extracts the members with these names from an archive (zip, or tar, plain or compressed by gzip,
// bzip2 or xz) into the folder; a member may be in any folder of the archive. A member that is
// itself compressed (NAME.Z) is decompressed. Each file appears only when it is complete.
//
// Throws Error: kInput if it is not an archive, is damaged or lacks a member, kSystem if the disk
// fails. Members that were complete by then stay.
void unpack(const std::filesystem::path& archive, const std::vector<std::string>& members,
            const std::filesystem::path& folder);

}  // namespace mcnb
