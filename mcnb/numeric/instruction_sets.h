#pragma once

// The instruction sets that Highway compiles the kernels for. Include this before Highway.
//
// Each set takes as long to compile as the first, so the sanitizer builds leave some out. Reads and
// writes out of bounds can depend on the width of a vector, so the address sanitizer watches all
// widths; a data race does not, so the thread sanitizer watches AVX2, which most machines have.
#if defined(__SANITIZE_ADDRESS__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#elif defined(__SANITIZE_THREAD__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif
