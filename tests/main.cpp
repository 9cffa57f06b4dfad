// The tests' main function: GoogleTest's own, preceded by MCNB_SIMD_LIMIT, which lets the tests run
// as they would on a machine with fewer instruction sets.

#include <gtest/gtest.h>

#include <cstdlib>

#include "mcnb/numeric/kernels.h"

int main(int argc, char** argv) {
  mcnb::kernels::use_simd_settings(std::getenv("MCNB_SIMD_LIMIT"), std::getenv("MCNB_SIMD"));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
