#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "mcnb/serve/engine/model_source.h"

namespace mcnb {

// Files that clients have sent, for models to begin from: in memory only, under random names, for
// an hour. Safe from any thread.
class Uploads {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{512} << 20;  // of all together

  // Returns the name of the new upload, such as "upload:1f...". Throws RequestRefused if there is
  // no room.
  std::string add(std::string_view bytes);
  // nullopt for an unknown name, or one whose time is over. The file lives as long as its owner.
  std::optional<StartFile> find(const std::string& name);
  // Returns false if there is none.
  bool remove(const std::string& name);

  // True for a name that an upload could have; no model can.
  static bool is_name(std::string_view name);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Entry {
    StartFile file;
    Time end;
  };
  void drop_old();

  std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace mcnb
