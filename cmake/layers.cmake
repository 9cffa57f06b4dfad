include(GNUInstallDirs)

# mcnb_library(TARGET FOLDER USES ... [PRECOMPILE ...] [TOGETHER]): a static library of the
# sources below FOLDER.
# Headers that most of its files include may be precompiled; every file includes what it needs all the
# same (the release preset precompiles nothing). A few files that share large headers may be compiled
# together, as one. Position independent, so that the Python module can be made of them; nothing else
# may take the place of our functions, so calls inside a file cost no more than in a program.
function(mcnb_library target folder)
  cmake_parse_arguments(PARSE_ARGV 2 arg "TOGETHER" "" "USES;PRECOMPILE")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PUBLIC ${arg_USES} PRIVATE $<BUILD_INTERFACE:mcnb_options>)
  target_compile_options(${target} PRIVATE -fno-semantic-interposition)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
    UNITY_BUILD ${arg_TOGETHER} UNITY_BUILD_BATCH_SIZE 0)
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
