#pragma once

#include <span>
#include <string>

#include "mcnb/serve/http/api_keys.h"
#include "mcnb/serve/http/handlers.h"

namespace mcnb {

// One endpoint of the API. To add one:
//   1. write its handler, a member function of Handlers;
//   2. add its row to the table in routes.cpp;
//   3. add the schemas of its bodies to openapi_schemas.cpp;
//   4. show an example in docs/HTTP_API.md and add a method to python/mcnb/client.py.
// The tests go over the table and name whatever is missing.
struct Endpoint {
  const char* method;
  const char* path;  // {model} and {id} stand for one segment each
  Right right;       // that the caller's key must have
  Reply (Handlers::*handler)(const Call& call) const;
  const char* metric;  // value of the label `route` in /metrics
  int status;          // of a successful response
  const char* summary;
  const char* request;   // schema of the request's body; nullptr if it has none
  const char* response;  // schema of the successful response; nullptr if it has no body
  const char* content_type = "application/json";  // of the successful response
  const char* query = "";                         // the names of its query parameters, with commas
};

std::span<const Endpoint> endpoints();

struct Match {
  const Endpoint* endpoint = nullptr;
  Call call;  // without its body
};

// The endpoint of a request. HEAD finds the endpoint of GET. Throws RequestRefused: kUnknownPath;
// kBadMethod, whose field lists the methods of the path; kBadPath or kBadField for a path that is
// not well formed, or a query parameter that an endpoint with parameters does not have.
Match find_endpoint(const std::string& method, const std::string& path);

}  // namespace mcnb
