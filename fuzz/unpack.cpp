#include "mcnb/data/sets/unpack.h"

#include "fuzz/expectations.h"
#include "tests/temporary_folder.h"

// An archive as it is downloaded. Either both members are extracted or the archive is refused; no
// partly written file remains.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace mcnb;
  static const TemporaryFolder folder(quick_folder());
  const std::vector<std::string> members{"a.csv", "b.csv"};
  put_file(folder / "archive", {reinterpret_cast<const char*>(data), size});
  bool unpacked = true;
  try {
    unpack(folder / "archive", members, folder.path());
  } catch (const Error& error) {
    check(error.kind() == ErrorKind::kInput, "a bad archive is called that");
    unpacked = false;
  }
  for (const std::string& name : folder.names()) {
    check(!name.ends_with(".part"), "nothing half written stays");
  }
  for (const std::string& member : members) {
    check(std::filesystem::remove(folder / member) || !unpacked, "every member came out");
  }
  return 0;
}
