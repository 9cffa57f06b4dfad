# mcnb_options: how all our own code is compiled. Linked by every target, never installed.
add_library(mcnb_options INTERFACE)
target_compile_features(mcnb_options INTERFACE cxx_std_20)
set(CMAKE_CXX_EXTENSIONS OFF)

# No fused multiply-add unless the source asks for it, so that results agree bit for bit on every
# processor. The prefix map lets messages name files from the repository root.
target_compile_options(mcnb_options INTERFACE
  -ffp-contract=off
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
target_compile_definitions(mcnb_options INTERFACE MCNB_VERSION="${PROJECT_VERSION}")

# Members left out of a designated initializer are meant to have their defaults, and g++ 12 wrongly
# finds overlaps (-Wrestrict) and overruns where a literal is joined to a string.
target_compile_options(mcnb_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wold-style-cast -Wcast-qual -Wcast-align
  -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi -Wformat=2 -Wundef
  -Wno-missing-field-initializers -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread
  -Wno-array-bounds)
if(NOT MCNB_BATCH)  # in a batch, names of one file shadow those of another
  target_compile_options(mcnb_options INTERFACE -Wshadow)
endif()
if(NOT DEFINED CMAKE_COMPILE_WARNING_AS_ERROR)
  set(CMAKE_COMPILE_WARNING_AS_ERROR ${PROJECT_IS_TOP_LEVEL})
endif()

if(NOT MCNB_SANITIZE MATCHES "^(|address,undefined|thread)$")
  message(FATAL_ERROR "MCNB_SANITIZE is '${MCNB_SANITIZE}'; "
                      "it may be empty, 'address,undefined' or 'thread'")
endif()
if(MCNB_SANITIZE)
  # Under the sanitizers g++ warns of uninitialized values where there are none.
  target_compile_options(mcnb_options INTERFACE
    -fsanitize=${MCNB_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
    -Wno-maybe-uninitialized)
  # These pointer checks take a quarter of the time. The address sanitizer sees most of what they see,
  # and readers copy numbers out of bytes at any alignment.
  if(MCNB_SANITIZE MATCHES undefined)
    target_compile_options(mcnb_options INTERFACE -fno-sanitize=null,alignment,object-size,vptr)
  endif()
  # Checks as calls instead of inline code find the same bugs and compile in two thirds of the time,
  # the kernels in one third.
  if(MCNB_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(mcnb_options INTERFACE
      --param=asan-instrumentation-with-call-threshold=0)
  endif()
  target_link_options(mcnb_options INTERFACE -fsanitize=${MCNB_SANITIZE})
  # Eigen's code for vectors takes a fifth of the time to compile; it is not ours to check.
  add_compile_definitions(EIGEN_DONT_VECTORIZE)
endif()

# xxHash, compiled into its users: nothing to link, nothing for consumers to find.
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
mark_as_advanced(XXHASH_INCLUDE_DIR)
add_library(mcnb_xxhash INTERFACE)
target_include_directories(mcnb_xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})
target_compile_definitions(mcnb_xxhash INTERFACE XXH_INLINE_ALL)

# Spectra, headers only, likewise.
find_path(SPECTRA_INCLUDE_DIR Spectra/SymEigsSolver.h REQUIRED)
mark_as_advanced(SPECTRA_INCLUDE_DIR)
add_library(mcnb_spectra INTERFACE)
target_include_directories(mcnb_spectra SYSTEM INTERFACE ${SPECTRA_INCLUDE_DIR})
