#include "mcnb/serve/http/turns.h"

#include <iterator>

namespace mcnb {

void Turns::add(const ClientAddress& client, const Turn& turn) {
  if (!waiting_.insert(key_of(turn)).second) {
    return;
  }
  auto found = by_client_.find(client);
  if (found == by_client_.end()) {
    lines_.push_back({client, {}});
    found = by_client_.emplace(client, std::prev(lines_.end())).first;
  }
  found->second->turns.push_back(turn);
}

std::optional<Turns::Turn> Turns::next() {
  if (lines_.empty()) {
    return std::nullopt;
  }
  const auto line = lines_.begin();
  const Turn turn = line->turns.front();
  line->turns.pop_front();
  waiting_.erase(key_of(turn));
  if (line->turns.empty()) {
    by_client_.erase(line->client);
    lines_.erase(line);
  } else {
    lines_.splice(lines_.end(), lines_, line);
  }
  return turn;
}

}  // namespace mcnb
