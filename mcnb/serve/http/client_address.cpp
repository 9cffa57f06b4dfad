#include "mcnb/serve/http/client_address.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "mcnb/base/error.h"
#include "mcnb/serve/http/request_parser.h"

namespace mcnb {
namespace {

constexpr std::array<std::uint8_t, 12> kIpv4Prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::size_t kMostForwards = 32;  // addresses of X-Forwarded-For that are looked at

bool same_bits(const ClientAddress& a, const ClientAddress& b, int bits) {
  const auto whole = static_cast<std::size_t>(bits / 8);
  if (!std::equal(a.bytes.begin(), a.bytes.begin() + static_cast<std::ptrdiff_t>(whole),
                  b.bytes.begin())) {
    return false;
  }
  const int rest = bits % 8;
  return rest == 0 || ((a.bytes[whole] ^ b.bytes[whole]) >> (8 - rest)) == 0;
}

}  // namespace

ClientAddress ClientAddress::of(const sockaddr_storage& socket_address) {
  ClientAddress address;
  if (socket_address.ss_family == AF_INET) {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(socket_address);
    std::ranges::copy(kIpv4Prefix, address.bytes.begin());
    std::memcpy(address.bytes.data() + kIpv4Prefix.size(), &ipv4.sin_addr, 4);
  } else if (socket_address.ss_family == AF_INET6) {
    const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(socket_address);
    std::memcpy(address.bytes.data(), &ipv6.sin6_addr, 16);
  }
  return address;
}

std::optional<ClientAddress> ClientAddress::parse(std::string_view text) {
  const std::string whole(text);
  ClientAddress address;
  if (::inet_pton(AF_INET6, whole.c_str(), address.bytes.data()) == 1) {
    return address;
  }
  std::ranges::copy(kIpv4Prefix, address.bytes.begin());
  if (::inet_pton(AF_INET, whole.c_str(), address.bytes.data() + kIpv4Prefix.size()) == 1) {
    return address;
  }
  return std::nullopt;
}

bool ClientAddress::is_ipv4() const {
  return std::equal(kIpv4Prefix.begin(), kIpv4Prefix.end(), bytes.begin());
}

std::string ClientAddress::text() const {
  char text[INET6_ADDRSTRLEN] = "";
  const bool ipv4 = is_ipv4();
  ::inet_ntop(ipv4 ? AF_INET : AF_INET6, bytes.data() + (ipv4 ? kIpv4Prefix.size() : 0), text,
              sizeof text);
  return text;
}

ClientAddress ClientAddress::group() const {
  ClientAddress group = *this;
  if (!is_ipv4()) {
    std::fill(group.bytes.begin() + 8, group.bytes.end(), std::uint8_t{0});
  }
  return group;
}

AddressList::AddressList(std::string_view text, const std::string& option) {
  for (const std::string_view element : list_elements(text)) {
    const std::size_t slash = std::min(element.find('/'), element.size());
    const auto address = ClientAddress::parse(element.substr(0, slash));
    const int most = address && address->is_ipv4() ? 32 : 128;
    int bits = most;
    bool sound = address.has_value();
    if (slash < element.size()) {
      const char* const end = element.data() + element.size();
      const auto read = std::from_chars(element.data() + slash + 1, end, bits);
      sound = sound && read.ec == std::errc() && read.ptr == end && bits >= 0 && bits <= most;
    }
    if (!sound) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("option {}: expected addresses or networks such as 10.0.0.0/8, got "
                              "\"{}\"",
                              option, element));
    }
    networks_.push_back({*address, bits + 128 - most});
  }
}

bool AddressList::contains(const ClientAddress& address) const {
  return std::ranges::any_of(networks_, [&](const Network& network) {
    return same_bits(network.address, address, network.bits);
  });
}

ClientAddress original_client(const ClientAddress& peer, std::string_view forwarded_for,
                              const AddressList& trusted) {
  ClientAddress client = peer;
  std::vector<std::string_view> forwards = list_elements(forwarded_for);
  for (std::size_t i = 0; i < kMostForwards && !forwards.empty() && trusted.contains(client); ++i) {
    const auto before = ClientAddress::parse(forwards.back());
    if (!before) {
      break;
    }
    client = *before;
    forwards.pop_back();
  }
  return client;
}

}  // namespace mcnb
