#pragma once

#include <memory>
#include <string>

#include "mcnb/serve/http/transport.h"

namespace mcnb {

// What TLS connections of the service share: its certificate and its private key. TLS 1.2 and 1.3
// with forward secrecy and authenticated encryption only. Safe from many threads.
class TlsIdentity {
 public:
  // Reads two PEM files: the certificate with its chain, and its private key. Logs a warning if
  // other users of the machine can read the key, or if the certificate is not valid now. Throws
  // Error (kUsage) naming the file that is missing, has no such PEM block, or does not belong to
  // the other one; it says so if the two are swapped.
  TlsIdentity(const std::string& certificate, const std::string& private_key);
  ~TlsIdentity();
  TlsIdentity(const TlsIdentity&) = delete;
  TlsIdentity& operator=(const TlsIdentity&) = delete;

  // Takes the socket, as plain_transport does. The connection keeps what it needs of the identity.
  std::unique_ptr<Transport> transport(int socket) const;

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace mcnb
