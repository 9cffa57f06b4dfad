#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace mcnb {

// Limits what clients have under way at once: a seat for each, so many of one client and so many in
// all. Safe from many threads; seats may outlive this object.
class Seats {
 public:
  Seats(std::size_t most, std::size_t most_of_client)
      : most_(most), most_of_client_(most_of_client) {}

  // A seat, until the last copy of the pointer goes; nullptr if none is free for this client.
  std::shared_ptr<const void> take(const std::string& client) const;

 private:
  struct Taken {
    std::mutex mutex;  // guards what follows
    std::map<std::string, std::size_t> by_client;
    std::size_t all = 0;
  };

  std::size_t most_;
  std::size_t most_of_client_;
  std::shared_ptr<Taken> taken_ = std::make_shared<Taken>();
};

}  // namespace mcnb
