enable_testing()
include(GoogleTest)
find_package(GTest REQUIRED)

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*_test.cpp)
list(FILTER test_sources EXCLUDE REGEX "/tests/install/")

get_property(layers GLOBAL PROPERTY MCNB_LAYERS)
list(TRANSFORM layers PREPEND "mcnb_")

# The fuzz targets, as plain functions that a test calls: fuzz/idx.cpp becomes fuzz_idx.
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/fuzz/*.cpp)
foreach(source ${fuzz_sources})
  get_filename_component(stem ${source} NAME_WE)
  set_source_files_properties(${source} PROPERTIES
    COMPILE_DEFINITIONS LLVMFuzzerTestOneInput=fuzz_${stem} SKIP_PRECOMPILE_HEADERS ON)
endforeach()

add_executable(mcnb_tests ${PROJECT_SOURCE_DIR}/tests/main.cpp ${test_sources} ${fuzz_sources})
target_link_libraries(mcnb_tests PRIVATE
  ${layers} mcnb_serve mcnb_bench GTest::gtest mcnb_options)
target_compile_definitions(mcnb_tests PRIVATE
  MCNB_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
  MCNB_BINARY="$<TARGET_FILE:mcnb>")
target_precompile_headers(mcnb_tests PRIVATE
  <gtest/gtest.h> <fmt/core.h> <Eigen/Dense> <algorithm> <filesystem> <functional> <map> <memory>
  <span> <string> <vector>)
# Eight files are compiled as one: templates are then made once for all of them. Every file has its
# own namespace, mcnb::NAME_test.
set_target_properties(mcnb_tests PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
# What is tested is compiled as the preset says; the tests themselves need no more than this.
if(NOT MCNB_SANITIZE)
  target_compile_options(mcnb_tests PRIVATE -O1 -g0)
endif()
# Under the sanitizers the tests' own code goes without a check that takes long to compile, and
# without line numbers; the layers under test keep both. Linked last, to come after the options that
# turn the checks on.
if(MCNB_SANITIZE)
  add_library(mcnb_test_options INTERFACE)
  target_compile_options(mcnb_test_options INTERFACE -g0)
  if(MCNB_SANITIZE MATCHES undefined)
    target_compile_options(mcnb_test_options INTERFACE -fno-sanitize-address-use-after-scope)
  endif()
  target_link_libraries(mcnb_tests PRIVATE mcnb_test_options)
endif()
add_dependencies(mcnb_tests mcnb)
# A process for each test, but for the sanitizers, which take long to start: there 32 share them.
if(MCNB_SANITIZE)
  foreach(part RANGE 31)
    add_test(NAME tests_${part} COMMAND mcnb_tests)
    set_property(TEST tests_${part} PROPERTY ENVIRONMENT
      GTEST_TOTAL_SHARDS=32 GTEST_SHARD_INDEX=${part})
  endforeach()
else()
  gtest_discover_tests(mcnb_tests DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120)
endif()

# Tests whose results depend on the instruction set run again as on machines with fewer of them, so
# that no test relies on the developer's processor. (./test --simd avx2 runs everything that way.)
foreach(best avx2 sse4 plain)
  add_test(NAME limited_to_${best} COMMAND mcnb_tests
    --gtest_filter=Kernels*:Gradient*:Network*:Ridge*:Symmetric*:Training*:Adaptation*:Cli*:Run.*)
  set_property(TEST limited_to_${best} PROPERTY ENVIRONMENT MCNB_SIMD_LIMIT=${best})
endforeach()

# Installs this build into a fresh folder and builds an outside project against it.
if(NOT MCNB_SANITIZE)
  add_test(NAME install COMMAND ${CMAKE_COMMAND}
    -D source_dir=${PROJECT_SOURCE_DIR}/tests/install
    -D build_dir=${PROJECT_BINARY_DIR}
    -D work_dir=${PROJECT_BINARY_DIR}/install_test
    -D compiler=${CMAKE_CXX_COMPILER}
    -D version=${PROJECT_VERSION}
    -P ${PROJECT_SOURCE_DIR}/tests/install/install_test.cmake)
  add_test(NAME package COMMAND ${CMAKE_COMMAND}
    -D build_dir=${PROJECT_BINARY_DIR}
    -D work_dir=${PROJECT_BINARY_DIR}/package_test
    -D version=${PROJECT_VERSION}
    -P ${PROJECT_SOURCE_DIR}/tests/install/package_test.cmake)
endif()

# The package with its module, beside the program, by the Python that it was built for.
if(TARGET mcnb_python)
  add_test(NAME python COMMAND ${Python_EXECUTABLE} -m pytest --quiet -p no:cacheprovider
    ${PROJECT_SOURCE_DIR}/python/tests)
  set_property(TEST python PROPERTY ENVIRONMENT
    PYTHONPATH=${MCNB_PYTHON_DIR} PYTHONDONTWRITEBYTECODE=1 MPLBACKEND=agg
    MCNB_BINARY=$<TARGET_FILE:mcnb> MCNB_BUILD_DIR=${PROJECT_BINARY_DIR})
endif()
