#include "mcnb/serve/store/log_checksums.h"

#include "mcnb/base/hash.h"

namespace mcnb {

std::uint64_t checksum_of_numbers(std::initializer_list<std::uint64_t> numbers,
                                  std::string_view bytes) {
  const std::string_view head(reinterpret_cast<const char*>(numbers.begin()),
                              numbers.size() * sizeof(std::uint64_t));
  return hash_bytes(bytes, hash_bytes(head));
}

std::uint64_t checksum_of(const LogRow& row) {
  return checksum_of_numbers({row.position, row.model, static_cast<std::uint64_t>(row.kind),
                              to_unsigned(row.time), row.user},
                             row.body);
}

std::uint64_t checksum_of(const EventId& id) {
  return checksum_of_numbers({id.model, id.key, id.position, to_unsigned(id.time), id.user});
}

}  // namespace mcnb
