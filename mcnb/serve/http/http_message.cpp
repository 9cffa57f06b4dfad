#include "mcnb/serve/http/http_message.h"

#include "mcnb/serve/http/response_json.h"

namespace mcnb {

HttpResponse error_response(const ServiceError& error) {
  const ErrorCodeRow& row = row_of(error.code);
  HttpResponse response{row.status, write_error(error)};
  response.retry_after = row.retry_after;
  if (error.code == ErrorCode::kBadMethod) {
    response.allow = error.field;
  }
  return response;
}

}  // namespace mcnb
