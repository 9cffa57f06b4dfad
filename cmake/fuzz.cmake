# The fuzz targets as programs of libFuzzer, which only Clang has: fuzz/idx.cpp becomes fuzz_idx.
# See fuzz/README.md.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "MCNB_FUZZ needs Clang; this is ${CMAKE_CXX_COMPILER_ID}")
endif()

# The layers that readers of files and requests are made of, watched by the fuzzer.
set(watch -fsanitize=address,undefined -fno-sanitize-recover=all)
file(GLOB_RECURSE watched_sources CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/mcnb/base/*.cpp ${PROJECT_SOURCE_DIR}/mcnb/storage/*.cpp
  ${PROJECT_SOURCE_DIR}/mcnb/numeric/*.cpp ${PROJECT_SOURCE_DIR}/mcnb/bandit/*.cpp
  ${PROJECT_SOURCE_DIR}/mcnb/data/*.cpp ${PROJECT_SOURCE_DIR}/mcnb/serve/*.cpp
  ${PROJECT_SOURCE_DIR}/mcnb/logs/*.cpp ${PROJECT_SOURCE_DIR}/mcnb/evaluate/*.cpp)
# Those compiled for several instruction sets only compute; watched, each takes minutes to compile.
foreach(source ${watched_sources})
  file(STRINGS ${source} targets REGEX "foreach_target")
  if(targets)
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -fno-sanitize=all)
  endif()
endforeach()
add_library(mcnb_watched STATIC EXCLUDE_FROM_ALL ${watched_sources})
target_include_directories(mcnb_watched PUBLIC ${PROJECT_SOURCE_DIR})
target_compile_features(mcnb_watched PUBLIC cxx_std_20)
target_compile_definitions(mcnb_watched PRIVATE MCNB_VERSION="${PROJECT_VERSION}")
target_compile_options(mcnb_watched PUBLIC ${watch} -fsanitize=fuzzer-no-link)
target_link_options(mcnb_watched PUBLIC ${watch})
# fmt as headers: the library was compiled by GCC, which names some of its templates differently.
target_link_libraries(mcnb_watched PUBLIC Threads::Threads fmt::fmt-header-only mcnb_xxhash
  mcnb_spectra hwy::hwy Eigen3::Eigen ZLIB::ZLIB PNG::PNG LibArchive::LibArchive
  simdjson::simdjson CURL::libcurl OpenSSL::SSL OpenSSL::Crypto SQLite::SQLite3 PostgreSQL::PostgreSQL
  tomlplusplus::tomlplusplus)

add_custom_target(fuzz)
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/fuzz/*.cpp)
foreach(source ${fuzz_sources})
  get_filename_component(stem ${source} NAME_WE)
  add_executable(fuzz_${stem} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(fuzz_${stem} PRIVATE mcnb_watched)
  target_link_options(fuzz_${stem} PRIVATE -fsanitize=fuzzer)
  add_dependencies(fuzz fuzz_${stem})
endforeach()
