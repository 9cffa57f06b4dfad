enable_testing()
include(GoogleTest)
find_package(GTest REQUIRED)

file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*_test.cpp)
list(FILTER test_sources EXCLUDE REGEX "/tests/install/")

# MCNB_THREADED_TESTS_ONLY keeps the test files that start threads or the program. The preset tsan
# sets it: the thread sanitizer finds nothing in code that runs on one thread.
if(MCNB_THREADED_TESTS_ONLY)
  set(threads "ThreadPool [a-z_]+[({]([^1]|1[^)}])|std::(jthread|thread|async)|--threads|--jobs")
  foreach(source ${test_sources})
    file(READ ${source} text)
    if(NOT text MATCHES "${threads}|ServerProgram |RunningEngine |Program ")
      list(REMOVE_ITEM test_sources ${source})
    endif()
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${test_sources})
endif()

list(APPEND test_sources ${PROJECT_SOURCE_DIR}/tests/serve/store/memory_storage.cpp)

# The simulator of power cuts replaces functions of the C library, which the sanitizers do, too.
if(MCNB_SANITIZE)
  list(FILTER test_sources EXCLUDE REGEX "/power_loss_test\\.cpp$")
else()
  file(GLOB power_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/serve/power/*.cpp)
  list(APPEND test_sources ${power_sources})
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/serve/power/file_recorder.cpp PROPERTIES
    SKIP_UNITY_BUILD_INCLUSION ON)
endif()

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
  ${layers} mcnb_serve mcnb_bench GTest::gtest mcnb_options
  # what the tests make data files with, read answers with, and check checksums with
  ZLIB::ZLIB PNG::PNG LibArchive::LibArchive nlohmann_json::nlohmann_json mcnb_xxhash)
# Preloaded into the real service, to make calls of the operating system fail.
add_library(mcnb_failing_calls MODULE ${PROJECT_SOURCE_DIR}/tests/serve/faults/failing_calls.cpp)
target_link_libraries(mcnb_failing_calls PRIVATE ${CMAKE_DL_LIBS})
target_compile_definitions(mcnb_failing_calls PRIVATE _GNU_SOURCE)
add_dependencies(mcnb_tests mcnb_failing_calls)
target_compile_definitions(mcnb_tests PRIVATE
  MCNB_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
  MCNB_FAILING_CALLS="$<TARGET_FILE:mcnb_failing_calls>"
  MCNB_BINARY="$<TARGET_FILE:mcnb>")
target_precompile_headers(mcnb_tests PRIVATE
  <gtest/gtest.h> <fmt/core.h> <Eigen/Dense> <algorithm> <filesystem> <functional> <map> <memory>
  <span> <string> <vector>)
# Several files are compiled as one, so that headers and templates are compiled once for all of them.
# Every file has its own namespace, mcnb::NAME_test.
set(batch 8)
if(MCNB_BATCH)
  set(batch 24)
endif()
set_target_properties(mcnb_tests PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
# What is tested is compiled as the preset says; the tests themselves need no more than this.
if(NOT MCNB_SANITIZE)
  target_compile_options(mcnb_tests PRIVATE -O1 -g0)
endif()
# Under the sanitizers the tests' own code goes without checks that take long to compile, and
# without line numbers; the layers under test keep both. Linked last, to come after the options that
# turn the checks on.
if(MCNB_SANITIZE)
  add_library(mcnb_test_options INTERFACE)
  target_compile_options(mcnb_test_options INTERFACE -g0)
  if(MCNB_SANITIZE MATCHES undefined)
    target_compile_options(mcnb_test_options INTERFACE -fno-sanitize-address-use-after-scope
                           -fno-sanitize=undefined)
  endif()
  target_link_libraries(mcnb_tests PRIVATE mcnb_test_options)
endif()
add_dependencies(mcnb_tests mcnb)
# One process per test; but the sanitizers take long to start, so there 32 processes share the tests.
# There we leave out those that play thousands of rounds to see what a policy learns: shorter tests
# run the same code. Tests with a PostgreSQL server share it, in one process.
if(MCNB_SANITIZE)
  set(learning BenchLearning.InHidden*:ClusterRecovery.*:DampedPolicies.*:Regret.*:*.PoliciesLearnInIt)
  foreach(part RANGE 31)
    add_test(NAME tests_${part} COMMAND mcnb_tests --gtest_filter=-*Postgres*:${learning})
    set_property(TEST tests_${part} PROPERTY ENVIRONMENT
      GTEST_TOTAL_SHARDS=32 GTEST_SHARD_INDEX=${part})
  endforeach()
else()
  gtest_discover_tests(mcnb_tests DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120
                       TEST_FILTER -*Postgres*)
endif()
add_test(NAME postgres COMMAND mcnb_tests --gtest_filter=*Postgres*)
set_property(TEST postgres PROPERTY COST 100)

# Adds tests/bandit/template_policy.cpp as CONTRIBUTING.md says, with its line in policies.cpp, and
# holds it to the contract of all policies.
if(NOT MCNB_SANITIZE)
  set(policies ${PROJECT_SOURCE_DIR}/mcnb/bandit/policies.cpp)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${policies})
  file(READ ${policies} registry)
  string(REPLACE "POLICY(sclub)" "POLICY(sclub) POLICY(template)" registry "${registry}")
  file(CONFIGURE OUTPUT policies_with_template.cpp CONTENT "${registry}" @ONLY)
  add_executable(mcnb_template_policy EXCLUDE_FROM_ALL
    ${PROJECT_BINARY_DIR}/policies_with_template.cpp
    ${PROJECT_SOURCE_DIR}/tests/bandit/template_policy.cpp
    ${PROJECT_SOURCE_DIR}/tests/bandit/policies_test.cpp
    ${PROJECT_SOURCE_DIR}/tests/main.cpp)
  target_link_libraries(mcnb_template_policy PRIVATE mcnb_bandit GTest::gtest mcnb_options)
  add_dependencies(mcnb_tests mcnb_template_policy)
  add_test(NAME template_policy COMMAND mcnb_template_policy --gtest_filter=Policies.*)
  set_property(TEST template_policy PROPERTY ENVIRONMENT MCNB_TEST_POLICY=template)
endif()

# Tests whose results depend on the instruction set run again with the better sets hidden, so that no
# test relies on the developer's processor. (./test --simd avx2 runs everything that way.) The
# sanitizers compile fewer sets (mcnb/numeric/instruction_sets.h) and repeat only tests of kernels.
set(simd_limits avx2 sse4 plain)
set(simd_tests Kernels*:Gradient*:Network*:Ridge*:Symmetric*:Training*:Adaptation*)
if(MCNB_SANITIZE STREQUAL "thread")
  set(simd_limits "")
elseif(MCNB_SANITIZE)
  set(simd_limits avx2 plain)
else()
  string(APPEND simd_tests ":Cli*:Run.*")
endif()
foreach(best ${simd_limits})
  add_test(NAME limited_to_${best} COMMAND mcnb_tests --gtest_filter=${simd_tests})
  set_property(TEST limited_to_${best} PROPERTY ENVIRONMENT MCNB_SIMD_LIMIT=${best})
endforeach()

# Installs this build into a fresh folder; builds an outside project and examples/cpp against it.
if(NOT MCNB_SANITIZE)
  add_test(NAME install COMMAND ${CMAKE_COMMAND}
    -D source_dir=${PROJECT_SOURCE_DIR}/tests/install
    -D examples_dir=${PROJECT_SOURCE_DIR}/examples/cpp
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
  set_property(TEST install package PROPERTY COST 100)
endif()

# The package with its module, beside the program, by the Python that it was built for. Long tests
# have a COST: ctest starts them first, so that none of them runs alone at the end.
if(TARGET mcnb_python)
  add_test(NAME python COMMAND ${Python_EXECUTABLE} -m pytest --quiet -p no:cacheprovider
    ${PROJECT_SOURCE_DIR}/python/tests)
  set_property(TEST python PROPERTY ENVIRONMENT
    PYTHONPATH=${MCNB_PYTHON_DIR} PYTHONDONTWRITEBYTECODE=1 MPLBACKEND=agg
    MCNB_BINARY=$<TARGET_FILE:mcnb> MCNB_BUILD_DIR=${PROJECT_BINARY_DIR})
  set_property(TEST python PROPERTY COST 200)
  # On its own, for ./test --device cuda.
  add_test(NAME device_python COMMAND ${Python_EXECUTABLE} -m pytest --quiet -p no:cacheprovider
    ${PROJECT_SOURCE_DIR}/python/tests/test_bandit.py -k gpu)
  set_property(TEST device_python PROPERTY ENVIRONMENT
    PYTHONPATH=${MCNB_PYTHON_DIR} PYTHONDONTWRITEBYTECODE=1)
endif()

# The dashboard in Chromium, and clients in TypeScript with packages of npm; all against the program.
if(NOT MCNB_SANITIZE)
  find_package(Python COMPONENTS Interpreter REQUIRED)
  foreach(part dashboard clients report)
    add_test(NAME web_${part} COMMAND ${Python_EXECUTABLE} -m pytest --quiet -rs -p no:cacheprovider
      ${PROJECT_SOURCE_DIR}/tests/web/test_${part}.py)
    set_tests_properties(web_${part} PROPERTIES COST 150 SKIP_RETURN_CODE 77 ENVIRONMENT
      "PYTHONDONTWRITEBYTECODE=1;MCNB_BINARY=$<TARGET_FILE:mcnb>;MCNB_WEB_WORK=${PROJECT_BINARY_DIR}/web")
  endforeach()
  add_test(NAME web_types COMMAND tsc --project ${PROJECT_SOURCE_DIR}/web/tsconfig.json)
endif()
