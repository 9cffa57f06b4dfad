#pragma once

#include <stdexcept>
#include <string>

namespace mcnb {

// A request that cannot be answered as asked, in the words of the API.
struct ServiceError {
  int status = 500;     // of HTTP
  std::string code;     // for programs: "unknown_model"
  std::string message;  // for people
  std::string field;    // of the request; may be empty
  int retry_after = 0;  // seconds; 0: says nothing
};

// The caller may ask again soon.
inline ServiceError in_progress(const char* message, const char* field = "") {
  return {503, "in_progress", message, field, 1};
}

// Thrown where a request is found wanting, caught where it is answered.
class RequestRefused : public std::runtime_error {
 public:
  explicit RequestRefused(ServiceError error)
      : std::runtime_error(error.message), error_(std::move(error)) {}
  const ServiceError& error() const { return error_; }

 private:
  ServiceError error_;
};

[[noreturn]] inline void refuse_request(int status, std::string code, std::string message,
                                        std::string field = "") {
  throw RequestRefused({status, std::move(code), std::move(message), std::move(field), 0});
}

}  // namespace mcnb
