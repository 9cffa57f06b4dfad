#include "mcnb/serve/engine/service_error.h"

#include <array>

namespace mcnb {
namespace {

constexpr std::array kRows{
    ErrorCodeRow{ErrorCode::kBadJson, "bad_json", 400},
    ErrorCodeRow{ErrorCode::kTooDeep, "too_deep", 400},
    ErrorCodeRow{ErrorCode::kBadField, "bad_field", 400},
    ErrorCodeRow{ErrorCode::kUnknownField, "unknown_field", 400},
    ErrorCodeRow{ErrorCode::kBadOption, "bad_option", 400},
    ErrorCodeRow{ErrorCode::kBadName, "bad_name", 400},
    ErrorCodeRow{ErrorCode::kBadPath, "bad_path", 400},
    ErrorCodeRow{ErrorCode::kBadRequest, "bad_request", 400},
    ErrorCodeRow{ErrorCode::kNoKey, "no_key", 401},
    ErrorCodeRow{ErrorCode::kUnknownKey, "unknown_key", 401},
    ErrorCodeRow{ErrorCode::kNotAllowed, "not_allowed", 403},
    ErrorCodeRow{ErrorCode::kForeignHost, "foreign_host", 403},
    ErrorCodeRow{ErrorCode::kForeignOrigin, "foreign_origin", 403},
    ErrorCodeRow{ErrorCode::kUnknownPath, "unknown_path", 404},
    ErrorCodeRow{ErrorCode::kUnknownModel, "unknown_model", 404},
    ErrorCodeRow{ErrorCode::kUnknownEvent, "unknown_event", 404},
    ErrorCodeRow{ErrorCode::kUnknownUser, "unknown_user", 404},
    ErrorCodeRow{ErrorCode::kUnknownChallenger, "unknown_challenger", 404},
    ErrorCodeRow{ErrorCode::kUnknownSlot, "unknown_slot", 404},
    ErrorCodeRow{ErrorCode::kUnknownUpload, "unknown_upload", 404},
    ErrorCodeRow{ErrorCode::kBadMethod, "bad_method", 405},
    ErrorCodeRow{ErrorCode::kEventExists, "event_exists", 409},
    ErrorCodeRow{ErrorCode::kModelExists, "model_exists", 409},
    ErrorCodeRow{ErrorCode::kModelChanged, "model_changed", 409},
    ErrorCodeRow{ErrorCode::kTooManyModels, "too_many_models", 409},
    ErrorCodeRow{ErrorCode::kChallengerExists, "challenger_exists", 409},
    ErrorCodeRow{ErrorCode::kTooManyChallengers, "too_many_challengers", 409},
    ErrorCodeRow{ErrorCode::kBackupExists, "backup_exists", 409},
    ErrorCodeRow{ErrorCode::kBadConfiguration, "bad_configuration", 409},
    ErrorCodeRow{ErrorCode::kEventEnded, "event_ended", 410},
    ErrorCodeRow{ErrorCode::kEventGone, "event_gone", 410},
    ErrorCodeRow{ErrorCode::kEventDamaged, "event_damaged", 410},
    ErrorCodeRow{ErrorCode::kTooLarge, "too_large", 413},
    ErrorCodeRow{ErrorCode::kTooCostly, "too_costly", 413},
    ErrorCodeRow{ErrorCode::kBadContentType, "bad_content_type", 415},
    ErrorCodeRow{ErrorCode::kTooManyWrongKeys, "too_many_wrong_keys", 429, 6},
    ErrorCodeRow{ErrorCode::kHeadersTooLarge, "headers_too_large", 431},
    ErrorCodeRow{ErrorCode::kModelDiverged, "model_diverged", 500},
    ErrorCodeRow{ErrorCode::kInternal, "internal", 500},
    // Another request of the same batch failed; the next try can succeed.
    ErrorCodeRow{ErrorCode::kBatchDiscarded, "internal", 500, 1},
    ErrorCodeRow{ErrorCode::kOverloaded, "overloaded", 503, 1},
    ErrorCodeRow{ErrorCode::kStorageFailed, "storage_failed", 503, 1},
    ErrorCodeRow{ErrorCode::kInProgress, "in_progress", 503, 1},
    ErrorCodeRow{ErrorCode::kNotOwner, "not_owner", 503, 1},
    ErrorCodeRow{ErrorCode::kBadVersion, "bad_version", 505},
    ErrorCodeRow{ErrorCode::kMemoryFull, "memory_full", 507, 10},
};

constexpr bool rows_are_in_the_order_of_the_codes() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].code != static_cast<ErrorCode>(i)) {
      return false;
    }
  }
  return kRows.size() == static_cast<std::size_t>(ErrorCode::kMemoryFull) + 1;
}
static_assert(rows_are_in_the_order_of_the_codes(), "row_of finds a code by its index");

}  // namespace

std::span<const ErrorCodeRow> error_codes() { return kRows; }

const ErrorCodeRow& row_of(ErrorCode code) { return kRows[static_cast<std::size_t>(code)]; }

}  // namespace mcnb
