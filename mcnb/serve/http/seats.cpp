#include "mcnb/serve/http/seats.h"

namespace mcnb {

std::shared_ptr<const void> Seats::take(const std::string& client) const {
  const std::lock_guard lock(taken_->mutex);
  std::size_t& own = taken_->by_client[client];
  if (taken_->all >= most_ || own >= most_of_client_) {
    if (own == 0) {
      taken_->by_client.erase(client);
    }
    return nullptr;
  }
  ++own;
  ++taken_->all;
  return {this, [taken = taken_, client](const Seats*) {
            const std::lock_guard giving_back(taken->mutex);
            --taken->all;
            if (--taken->by_client[client] == 0) {
              taken->by_client.erase(client);
            }
          }};
}

}  // namespace mcnb
