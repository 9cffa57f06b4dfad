#pragma once

#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mcnb {

// The address of a client: IPv6, or IPv4 in the form ::ffff:a.b.c.d.
struct ClientAddress {
  std::array<std::uint8_t, 16> bytes{};

  auto operator<=>(const ClientAddress&) const = default;

  static ClientAddress of(const sockaddr_storage& socket_address);
  // nullopt if the text is no address.
  static std::optional<ClientAddress> parse(std::string_view text);

  bool is_ipv4() const;
  std::string text() const;
  // What limits per address count as one: an IPv4 address, or the /64 network of an IPv6 address,
  // all of which one client can use.
  ClientAddress group() const;
};

// Addresses and networks.
class AddressList {
 public:
  AddressList() = default;
  // Reads a list such as "10.0.0.0/8, ::1". Throws Error (kUsage) naming `option`.
  AddressList(std::string_view text, const std::string& option);

  bool contains(const ClientAddress& address) const;
  bool empty() const { return networks_.empty(); }

 private:
  struct Network {
    ClientAddress address;
    int bits = 128;
  };
  std::vector<Network> networks_;
};

// The client behind trusted proxies: the last address of the header X-Forwarded-For that is not
// such a proxy's. `peer` itself, unless it is trusted and the header names an address.
ClientAddress original_client(const ClientAddress& peer, std::string_view forwarded_for,
                              const AddressList& trusted);

}  // namespace mcnb
