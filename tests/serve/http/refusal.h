#pragma once

#include <gtest/gtest.h>

#include <string>

#include "mcnb/serve/engine/service_error.h"

namespace mcnb {

// Status, code and field of the refusal that `read` throws; empty if it throws nothing.
template <class Read>
std::string refusal_of(Read read) {
  try {
    read();
  } catch (const RequestRefused& refused) {
    EXPECT_FALSE(refused.error().message.empty());
    const ErrorCodeRow& row = row_of(refused.error().code);
    return std::to_string(row.status) + " " + row.name + " " + refused.error().field;
  }
  return "";
}

}  // namespace mcnb
