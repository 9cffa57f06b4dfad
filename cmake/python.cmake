# The Python module mcnb._core, and the package around it: in the folder `python` of the build, as
# `import mcnb` finds them (python/build_backend.py makes wheels of it).
#
# Debian's own Python, unless another is asked for: the first python3 on the PATH may be anybody's.
if(NOT DEFINED Python_EXECUTABLE AND EXISTS /usr/bin/python3)
  set(Python_EXECUTABLE /usr/bin/python3)
endif()
find_package(Python 3.9 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(pybind11 2.10 REQUIRED)

set(MCNB_PYTHON_DIR ${PROJECT_BINARY_DIR}/python)
file(GLOB module_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/src/*.cpp)
pybind11_add_module(mcnb_python MODULE NO_EXTRAS ${module_sources})
target_link_libraries(mcnb_python PRIVATE mcnb_experiment mcnb_evaluate mcnb_serve mcnb_options)
# Nothing but the module's entry is seen from outside. The files are compiled together: the headers
# of pybind11 take longer than the rest.
target_link_options(mcnb_python PRIVATE -Wl,--exclude-libs,ALL)
set_target_properties(mcnb_python PROPERTIES OUTPUT_NAME _core
  LIBRARY_OUTPUT_DIRECTORY ${MCNB_PYTHON_DIR}/mcnb
  UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)

file(GLOB package_files CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/python/mcnb/*.py ${PROJECT_SOURCE_DIR}/python/mcnb/*.pyi
  ${PROJECT_SOURCE_DIR}/python/mcnb/py.typed)
file(MAKE_DIRECTORY ${MCNB_PYTHON_DIR}/mcnb)
foreach(file ${package_files})
  get_filename_component(name ${file} NAME)
  file(CREATE_LINK ${file} ${MCNB_PYTHON_DIR}/mcnb/${name} SYMBOLIC)
endforeach()
