#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace mcnb {

// Every reason why the service does not do what a request asks. Adding one means adding its row to
// the table in service_error.cpp and its name to the error table of docs/HTTP_API.md.
enum class ErrorCode : std::uint8_t {
  kBadJson,
  kTooDeep,
  kBadField,
  kUnknownField,
  kBadOption,
  kBadName,
  kBadPath,
  kBadRequest,
  kNoKey,
  kUnknownKey,
  kNotAllowed,
  kForeignHost,
  kForeignOrigin,
  kUnknownPath,
  kUnknownModel,
  kUnknownEvent,
  kUnknownUser,
  kUnknownChallenger,
  kUnknownSlot,
  kUnknownUpload,
  kBadMethod,
  kEventExists,
  kModelExists,
  kModelChanged,
  kTooManyModels,
  kChallengerExists,
  kTooManyChallengers,
  kBackupExists,
  kBadConfiguration,
  kEventEnded,
  kEventGone,
  kEventDamaged,
  kTooLarge,
  kTooCostly,
  kBadContentType,
  kTooManyWrongKeys,
  kHeadersTooLarge,
  kModelDiverged,
  kInternal,
  kBatchDiscarded,
  kOverloaded,
  kStorageFailed,
  kInProgress,
  kNotOwner,
  kBadVersion,
  kMemoryFull,
};

// How the API shows an error code.
struct ErrorCodeRow {
  ErrorCode code;
  const char* name;     // "code" in the JSON of the response
  int status;           // HTTP status
  int retry_after = 0;  // seconds, for the header Retry-After; 0 means that the header is absent
};
std::span<const ErrorCodeRow> error_codes();
const ErrorCodeRow& row_of(ErrorCode code);

// Why a request was refused or failed.
struct ServiceError {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // for people
  std::string field;    // the field of the request that is wrong; may be empty

  int status() const { return row_of(code).status; }
};

// Thrown where a request turns out to be wrong; caught by the engine and by the HTTP API.
class RequestRefused : public std::runtime_error {
 public:
  explicit RequestRefused(ServiceError error)
      : std::runtime_error(error.message), error_(std::move(error)) {}
  const ServiceError& error() const { return error_; }

 private:
  ServiceError error_;
};

[[noreturn]] inline void refuse_request(ErrorCode code, std::string message,
                                        std::string field = "") {
  throw RequestRefused({code, std::move(message), std::move(field)});
}

}  // namespace mcnb
