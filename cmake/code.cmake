# mcnb_code.h: MCNB_CODE, which stands for all code that results depend on and for how it is
# compiled. Finished runs are kept under it: a change elsewhere (tables, pictures, the service) does not
# throw them away, and machines that share the work agree on it.
if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB_RECURSE files ${source_dir}/mcnb/base/* ${source_dir}/mcnb/numeric/* ${source_dir}/mcnb/bandit/*
       ${source_dir}/mcnb/data/* ${source_dir}/mcnb/environment/*
       ${source_dir}/mcnb/experiment/run/runner.* ${source_dir}/mcnb/experiment/run/experiment_policies.*
       ${source_dir}/mcnb/experiment/run/cluster_quality.*)
  set(hashes "${compiled}")
  foreach(file ${files})
    file(SHA256 ${file} hash)
    string(APPEND hashes "${hash}")
  endforeach()
  string(SHA256 hash "${hashes}")
  string(SUBSTRING ${hash} 0 16 hash)
  file(CONFIGURE OUTPUT ${header} CONTENT "#define MCNB_CODE \"${hash}\"\n")
  return()
endif()

file(GLOB_RECURSE code CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/mcnb/*.h ${PROJECT_SOURCE_DIR}/mcnb/*.cpp)
add_custom_command(
  OUTPUT ${PROJECT_BINARY_DIR}/code/mcnb_code.h
  COMMAND ${CMAKE_COMMAND} -D source_dir=${PROJECT_SOURCE_DIR}
          -D header=${PROJECT_BINARY_DIR}/code/mcnb_code.h
          "-Dcompiled=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_BUILD_TYPE}"
          -P ${PROJECT_SOURCE_DIR}/cmake/code.cmake
  DEPENDS ${code} ${PROJECT_SOURCE_DIR}/cmake/code.cmake
  COMMENT "Naming the code")
add_custom_target(mcnb_code DEPENDS ${PROJECT_BINARY_DIR}/code/mcnb_code.h)
foreach(target mcnb mcnb_environment)
  add_dependencies(${target} mcnb_code)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/code)
endforeach()
