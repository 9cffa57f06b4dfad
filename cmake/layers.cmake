include(GNUInstallDirs)

# Files that MCNB_BATCH leaves alone, because another file of the layer has the same name in its
# anonymous namespace, or because a class of theirs has members of such types.
set(MCNB_APART
  bandit/linear/sclub_clusters bandit/mcnb/meta_learner numeric/ridge
  data/formats/idx data/formats/notmnist data/formats/npy data/prepare/reduced_ratings
  data/prepare/truncated_svd data/sets/mushroom data/sets/unpack serve/engine/housekeeping
  serve/engine/snapshot_schedule serve/http/forwarder serve/http/http_server serve/http/tls)

# compile_together(TARGET SOURCES...): compiles MCNB_BATCH files as one.
function(compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${MCNB_BATCH})
  foreach(source ${ARGN})
    # Kernels include themselves several times; policies give their private parts the same names.
    file(STRINGS ${source} alone REGEX "HWY_TARGET_INCLUDE|^PolicyKind ")
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/mcnb ${source})
    string(REGEX REPLACE "\\.cpp$" "" name ${name})
    if(alone OR name IN_LIST MCNB_APART)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# mcnb_library(TARGET FOLDER USES ... [INSIDE ...] [PRECOMPILE ...] [TOGETHER]): a static library of
# the sources below FOLDER.
# USES: what its headers and sources include; INSIDE: what only its sources include.
# PRECOMPILE: headers that most of its files include. Every file still includes what it needs, since
# the release preset precompiles nothing. TOGETHER: all files are compiled as one, which saves time if
# they share large headers. The code is position independent, since the Python module is made of it,
# and functions cannot be replaced at load time, so calls inside a file cost no more than in a program.
function(mcnb_library target folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "TOGETHER" "" "USES;INSIDE;PRECOMPILE")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PUBLIC ${arg_USES}
    PRIVATE ${arg_INSIDE} $<BUILD_INTERFACE:mcnb_options>)
  target_compile_options(${target} PRIVATE -fno-semantic-interposition)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
    UNITY_BUILD ${arg_TOGETHER} UNITY_BUILD_BATCH_SIZE 0)
  if(MCNB_BATCH AND NOT folder STREQUAL "bench")
    compile_together(${target} ${sources})
  endif()
  if(arg_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE
      <algorithm> <filesystem> <functional> <map> <memory> <span> <string> <vector>
      ${arg_PRECOMPILE})
  endif()
endfunction()

# mcnb_layer(LAYER USES ...): the library mcnb::LAYER of mcnb/LAYER, which is installed.
function(mcnb_layer layer)
  mcnb_library(mcnb_${layer} mcnb/${layer} ${ARGN})
  add_library(mcnb::${layer} ALIAS mcnb_${layer})
  set_target_properties(mcnb_${layer} PROPERTIES EXPORT_NAME ${layer})
  install(TARGETS mcnb_${layer} EXPORT mcnb)
  set_property(GLOBAL APPEND PROPERTY MCNB_LAYERS ${layer})
endfunction()

# mcnb_program(TARGET FOLDER USES ...): a program of FOLDER/*.cpp, compiled together and installed.
function(mcnb_program target folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "USES")
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  add_executable(${target} ${sources})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  target_link_libraries(${target} PRIVATE ${arg_USES} mcnb_options)
  install(TARGETS ${target} COMPONENT program)
endfunction()
