#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "mcnb/base/error.h"

namespace mcnb {

// Expects `action` to throw an Error of this kind with `words` in its message.
inline void expect_error(ErrorKind kind, const std::string& words,
                         const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos)
        << error.what() << "\nshould say: " << words;
  }
}

}  // namespace mcnb
