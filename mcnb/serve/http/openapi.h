#pragma once

#include <string>

namespace mcnb {

// The OpenAPI 3 document of the API: its paths come from the table of endpoints, its error codes
// from the table of error codes, its schemas from openapi_schemas.cpp and
// openapi_personalizer_schemas.cpp.
std::string openapi_document();

// The schemas that endpoints name and those that they refer to, as the members of a JSON object:
// "Status": {...}, "Models": {...}.
extern const char* const kOpenApiSchemas;
extern const char* const kPersonalizerSchemas;

}  // namespace mcnb
