#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace mcnb {

// Takes the members with these names out of an archive (zip, or tar, plain or compressed by gzip,
// bzip2 or xz), wherever they lie in it, and puts them into the folder. One that is compressed by
// itself (NAME.Z) is decompressed. A member takes its place only when it is whole.
//
// Throws Error: kInput where it is no archive, is damaged or has no such member, kSystem where the
// disk fails. Members that were whole by then stay.
void unpack(const std::filesystem::path& archive, const std::vector<std::string>& members,
            const std::filesystem::path& folder);

}  // namespace mcnb
