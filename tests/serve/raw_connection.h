#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/temporary_folder.h"

namespace mcnb {

// The files of a certificate for localhost that signs itself.
struct PemFiles {
  std::string certificate;
  std::string private_key;
};

inline PemFiles make_certificate(const TemporaryFolder& folder, const std::string& name) {
  PemFiles files{(folder / (name + ".pem")).string(), (folder / (name + ".key")).string()};
  const std::string command =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "
      "/CN=" +
      name + " -addext subjectAltName=DNS:localhost -keyout " + files.private_key + " -out " +
      files.certificate + " 2> /dev/null";
  if (std::system(command.c_str()) != 0) {
    throw std::runtime_error("openssl makes no certificate");
  }
  return files;
}

// How a RawConnection begins.
struct RawOptions {
  bool tls = false;
  std::string from = "127.0.0.1";   // the client's address: any of 127.0.0.0/8
  int newest_tls = TLS1_3_VERSION;  // the client's
};

// A connection to this machine over which a test sends any bytes, with or without TLS.
class RawConnection {
 public:
  explicit RawConnection(std::uint16_t port, const RawOptions& options = {}) {
    ::signal(SIGPIPE, SIG_IGN);  // OpenSSL cannot be told so for one connection
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in own = loopback(options.from, 0);
    const sockaddr_in other = loopback("127.0.0.1", port);
    ::bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof own);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&other), sizeof other) == 0;
    if (connected_ && options.tls) {
      context_.reset(::SSL_CTX_new(::TLS_client_method()));
      ::SSL_CTX_set_cipher_list(context_.get(), "ALL:@SECLEVEL=0");
      ::SSL_CTX_set_min_proto_version(context_.get(), 0);
      ::SSL_CTX_set_max_proto_version(context_.get(), options.newest_tls);
      tls_.reset(::SSL_new(context_.get()));
      ::SSL_set_fd(tls_.get(), socket_);
      connected_ = ::SSL_connect(tls_.get()) == 1;
    }
  }
  ~RawConnection() {
    tls_.reset();
    ::close(socket_);
  }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  bool connected() const { return connected_; }

  // The other side may close the connection meanwhile.
  void send(std::string_view bytes) {
    if (!connected_) {
      return;
    }
    if (tls_ != nullptr) {
      ::SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size()));
      return;
    }
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) {
        return;
      }
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  // Everything that comes until `until` is in it, the other side ends the connection, or the time
  // is over.
  std::string receive(double seconds, const std::string& until = "") {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    std::string all;
    ended_ = ended_ || !connected_;
    while (!ended_ && (until.empty() || all.find(until) == std::string::npos)) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
          end - std::chrono::steady_clock::now());
      pollfd ready{socket_, POLLIN, 0};
      const bool buffered = tls_ != nullptr && ::SSL_pending(tls_.get()) > 0;
      if (!buffered &&
          (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0)) {
        break;
      }
      char some[8192];
      const auto got = tls_ != nullptr ? ::SSL_read(tls_.get(), some, sizeof some)
                                       : static_cast<int>(::recv(socket_, some, sizeof some, 0));
      if (got > 0) {
        all.append(some, static_cast<std::size_t>(got));
      } else {
        ended_ = true;
      }
    }
    return all;
  }
  // True once `receive` has seen the end of the connection.
  bool ended() const { return ended_; }

  // The subject of the server's certificate.
  std::string subject() const {
    const std::unique_ptr<X509, decltype(&::X509_free)> certificate(
        ::SSL_get1_peer_certificate(tls_.get()), &::X509_free);
    char name[256] = "";
    ::X509_NAME_get_text_by_NID(::X509_get_subject_name(certificate.get()), NID_commonName, name,
                                sizeof name);
    return name;
  }

 private:
  struct FreeTls {
    void operator()(SSL* tls) const { ::SSL_free(tls); }
    void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
  };

  static sockaddr_in loopback(const std::string& address, std::uint16_t port) {
    sockaddr_in result{};
    result.sin_family = AF_INET;
    result.sin_port = htons(port);
    ::inet_pton(AF_INET, address.c_str(), &result.sin_addr);
    return result;
  }

  int socket_ = -1;
  bool connected_ = false;
  bool ended_ = false;
  std::unique_ptr<SSL_CTX, FreeTls> context_;
  std::unique_ptr<SSL, FreeTls> tls_;
};

// The status of an answer; 0 if there is none.
inline int status_in(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::atoi(answer.c_str() + 9) : 0;
}

}  // namespace mcnb
