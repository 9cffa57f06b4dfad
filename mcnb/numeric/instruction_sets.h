#pragma once

// Which of Highway's instruction sets the kernels are compiled for; to be included before Highway.
// The sanitizers watch the widest and the plain one alone: kernels are written once for all, and
// each set takes as long to compile as the first.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3_DL)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif
