// A program of somebody who uses the installed mcnb.
#include <cstdio>

#include "mcnb/base/error.h"

int main() {
  try {
    throw mcnb::Error(mcnb::ErrorKind::kInput, "an error of mcnb");
  } catch (const mcnb::Error& error) {
    std::puts(error.what());
    return error.kind() == mcnb::ErrorKind::kInput ? 0 : 1;
  }
}
