#include "mcnb/serve/http/tls.h"

#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <iterator>

#include "mcnb/base/error.h"
#include "mcnb/serve/engine/log_lines.h"

namespace mcnb {
namespace {

template <auto free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<&::BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<&::X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Freed<&::EVP_PKEY_free>>;

constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";  // of TLS 1.2
constexpr unsigned char kSessions[] = "mcnb";

[[noreturn]] void refuse_file(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::kUsage, fmt::format("{}: {}", path, why));
}

std::string last_reason() {
  const char* reason = ::ERR_reason_error_string(::ERR_peek_last_error());
  ::ERR_clear_error();
  return reason == nullptr ? "unknown" : reason;
}

std::string read_pem(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) {
    refuse_file(path, fmt::format("cannot read: {}", std::strerror(errno)));
  }
  return text;
}

bool has_certificate(const std::string& pem) {
  return pem.find("-----BEGIN CERTIFICATE-----") != std::string::npos ||
         pem.find("-----BEGIN X509 CERTIFICATE-----") != std::string::npos ||
         pem.find("-----BEGIN TRUSTED CERTIFICATE-----") != std::string::npos;
}

bool has_private_key(const std::string& pem) {
  return pem.find("PRIVATE KEY-----") != std::string::npos;
}

Bio bio_of(const std::string& pem) {
  return Bio(::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// Never asks for a passphrase on the terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

void warn_about_dates(const X509* certificate, const std::string& path) {
  if (::X509_cmp_current_time(::X509_get0_notAfter(certificate)) < 0) {
    log_warning("the certificate has expired", {{"file", path}});
  } else if (::X509_cmp_current_time(::X509_get0_notBefore(certificate)) > 0) {
    log_warning("the certificate is not valid yet", {{"file", path}});
  }
}

void warn_if_others_can_read(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) == 0 && (file.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    log_warning("other users of this machine can read the private key: chmod o= it",
                {{"file", path}});
  }
}

void use_certificates(SSL_CTX* context, const std::string& path, const std::string& pem) {
  const Bio bio = bio_of(pem);
  const Certificate first(::PEM_read_bio_X509_AUX(bio.get(), nullptr, &no_passphrase, nullptr));
  if (!first || ::SSL_CTX_use_certificate(context, first.get()) != 1) {
    refuse_file(path, fmt::format("the certificate cannot be used: {}", last_reason()));
  }
  while (X509* next = ::PEM_read_bio_X509(bio.get(), nullptr, &no_passphrase, nullptr)) {
    if (::SSL_CTX_add0_chain_cert(context, next) != 1) {
      ::X509_free(next);
      refuse_file(path,
                  fmt::format("a certificate of the chain cannot be used: {}", last_reason()));
    }
  }
  ::ERR_clear_error();
  warn_about_dates(first.get(), path);
}

void use_key(SSL_CTX* context, const std::string& path, const std::string& pem) {
  const Bio bio = bio_of(pem);
  const PrivateKey key(::PEM_read_bio_PrivateKey(bio.get(), nullptr, &no_passphrase, nullptr));
  if (!key) {
    ::ERR_clear_error();
    refuse_file(path, pem.find("ENCRYPTED") != std::string::npos
                          ? "the private key has a passphrase: store it without one"
                          : "the private key is damaged");
  }
  if (::SSL_CTX_use_PrivateKey(context, key.get()) != 1 ||
      ::SSL_CTX_check_private_key(context) != 1) {
    ::ERR_clear_error();
    refuse_file(path, "the private key does not belong to the certificate");
  }
}

// Agrees to HTTP/1.1, also if the client prefers HTTP/2, which we do not speak.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* out_length,
                    const unsigned char* offered, unsigned length, void*) {
  constexpr std::string_view kOurs = "http/1.1";
  for (unsigned at = 0; at < length; at += 1U + offered[at]) {
    const std::string_view name(reinterpret_cast<const char*>(offered) + at + 1,
                                std::min<unsigned>(offered[at], length - at - 1));
    if (name == kOurs) {
      *out = offered + at + 1;
      *out_length = static_cast<unsigned char>(name.size());
      return SSL_TLSEXT_ERR_OK;
    }
  }
  return SSL_TLSEXT_ERR_NOACK;
}

class TlsTransport : public Transport {
 public:
  TlsTransport(SSL_CTX* context, int socket) : socket_(socket), tls_(::SSL_new(context)) {
    if (tls_ != nullptr) {
      ::SSL_set_fd(tls_, socket);
      ::SSL_set_accept_state(tls_);
    }
  }
  ~TlsTransport() override {
    ::SSL_free(tls_);
    ::close(socket_);
  }
  TlsTransport(const TlsTransport&) = delete;
  TlsTransport& operator=(const TlsTransport&) = delete;

  State shake_hands() override {
    if (tls_ == nullptr) {
      return State::kEnded;
    }
    ::ERR_clear_error();
    return state_of(::SSL_do_handshake(tls_));
  }

  Moved read(std::span<char> to) override {
    std::size_t bytes = 0;
    ::ERR_clear_error();
    return {state_of(::SSL_read_ex(tls_, to.data(), to.size(), &bytes)), bytes};
  }

  Moved write(std::string_view text) override {
    std::size_t bytes = 0;
    ::ERR_clear_error();
    return {state_of(::SSL_write_ex(tls_, text.data(), text.size(), &bytes)), bytes};
  }

  void end_writing() override {
    if (!failed_ && ::SSL_is_init_finished(tls_) == 1) {
      ::ERR_clear_error();
      ::SSL_shutdown(tls_);
    }
    ::shutdown(socket_, SHUT_WR);
  }

 private:
  State state_of(int result) {
    if (result == 1) {
      return State::kOpen;
    }
    const int error = ::SSL_get_error(tls_, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
      return State::kAgain;
    }
    failed_ = failed_ || error == SSL_ERROR_SSL || error == SSL_ERROR_SYSCALL;
    return State::kEnded;
  }

  int socket_;
  SSL* tls_;
  bool failed_ = false;  // SSL_shutdown must not be called any more
};

}  // namespace

struct TlsIdentity::Context {
  std::unique_ptr<SSL_CTX, Freed<&::SSL_CTX_free>> tls{::SSL_CTX_new(::TLS_server_method())};
};

TlsIdentity::TlsIdentity(const std::string& certificate, const std::string& private_key)
    : context_(std::make_unique<Context>()) {
  SSL_CTX* const tls = context_->tls.get();
  if (tls == nullptr || ::SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) != 1 ||
      ::SSL_CTX_set_cipher_list(tls, kCiphers) != 1) {
    throw Error(ErrorKind::kSystem, fmt::format("cannot prepare TLS: {}", last_reason()));
  }
  ::SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  ::SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                              SSL_MODE_RELEASE_BUFFERS);
  ::SSL_CTX_set_session_id_context(tls, kSessions, sizeof kSessions - 1);
  ::SSL_CTX_set_alpn_select_cb(tls, &choose_protocol, nullptr);
  const std::string certificate_pem = read_pem(certificate);
  const std::string key_pem = read_pem(private_key);
  const bool swapped = !has_certificate(certificate_pem) && has_private_key(certificate_pem) &&
                       !has_private_key(key_pem) && has_certificate(key_pem);
  if (swapped) {
    refuse_file(certificate, fmt::format("is a private key, and {} is a certificate: the options "
                                         "certificate and private_key are swapped",
                                         private_key));
  }
  if (!has_certificate(certificate_pem)) {
    refuse_file(certificate, has_private_key(certificate_pem)
                                 ? "expected a certificate in PEM, but it is a private key"
                                 : "expected a certificate in PEM");
  }
  if (!has_private_key(key_pem)) {
    refuse_file(private_key, has_certificate(key_pem)
                                 ? "expected a private key in PEM, but it is a certificate"
                                 : "expected a private key in PEM");
  }
  use_certificates(tls, certificate, certificate_pem);
  use_key(tls, private_key, key_pem);
  warn_if_others_can_read(private_key);
}

TlsIdentity::~TlsIdentity() = default;

std::unique_ptr<Transport> TlsIdentity::transport(int socket) const {
  return std::make_unique<TlsTransport>(context_->tls.get(), socket);
}

}  // namespace mcnb
