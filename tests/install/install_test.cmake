# Installs the build in build_dir into a fresh folder and uses it there as an outsider would:
# by CMake, by pkg-config, and by calling the program.
# Called with -D source_dir, examples_dir, build_dir, work_dir, compiler and version.

cmake_minimum_required(VERSION 3.25)

set(prefix ${work_dir}/prefix)

# run(COMMAND...): fails the test, with the output, if the command fails. Sets `output`.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "failed (${result}): ${command}\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${work_dir})
run(${CMAKE_COMMAND} --install ${build_dir} --prefix ${prefix})

# Moved, since whoever packages it moves it too.
file(RENAME ${prefix} ${work_dir}/moved)
set(prefix ${work_dir}/moved)

run(${CMAKE_COMMAND} -S ${source_dir} -B ${work_dir}/outside -G Ninja
    -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_PREFIX_PATH=${prefix} -D examples_dir=${examples_dir})
run(${CMAKE_COMMAND} --build ${work_dir}/outside)
run(${work_dir}/outside/outside)
file(GLOB examples ${examples_dir}/*.cpp)
foreach(source ${examples})
  get_filename_component(name ${source} NAME_WE)
  run(${work_dir}/outside/${name})
endforeach()

file(GLOB_RECURSE pc_file ${prefix}/mcnb.pc)
get_filename_component(pkgconfig_dir "${pc_file}" DIRECTORY)
set(ENV{PKG_CONFIG_PATH} "${pkgconfig_dir}:$ENV{PKG_CONFIG_PATH}")
run(pkg-config --cflags --libs mcnb)
separate_arguments(flags UNIX_COMMAND "${output}")
run(${compiler} -std=c++20 ${source_dir}/main.cpp -o ${work_dir}/outside_pkgconfig ${flags})
run(${work_dir}/outside_pkgconfig)

run(${prefix}/bin/mcnb --version)
string(FIND "${output}" "${version}" found)
if(found EQUAL -1)
  message(FATAL_ERROR "mcnb --version does not name ${version}: ${output}")
endif()

# Installed headers include only each other and the standard library, whose headers have names
# without dots and slashes.
file(GLOB_RECURSE headers RELATIVE ${prefix}/include ${prefix}/include/*.h)
if(NOT "mcnb/bandit/policy.h" IN_LIST headers OR "mcnb/bandit/history.h" IN_LIST headers)
  message(FATAL_ERROR "other headers are installed than cmake/install.cmake says: ${headers}")
endif()
foreach(header ${headers})
  file(STRINGS ${prefix}/include/${header} lines REGEX "^#include")
  foreach(line ${lines})
    string(REGEX REPLACE "^#include [<\"](.*)[>\"].*$" "\\1" included "${line}")
    if(NOT included IN_LIST headers AND included MATCHES "[./]")
      message(FATAL_ERROR "${header} includes ${included}, which is not installed")
    endif()
  endforeach()
  string(APPEND every_header "#include \"${header}\"\n")
endforeach()

# Nor do they need anything that was included before them, or a library's folder.
file(WRITE ${work_dir}/every_header.cpp "${every_header}")
run(${compiler} -std=c++20 -fsyntax-only -I${prefix}/include ${work_dir}/every_header.cpp)
