# The rounds of M-CNB on a GPU: one file that nvcc compiles, linked into mcnb_bandit with the CUDA
# runtime inside, so that what links our library needs neither CUDA's libraries nor a GPU. Without a
# compiler for it, mcnb/bandit/mcnb/device/no_cuda.cpp stands in its place.
set(MCNB_CUDA auto CACHE STRING "Rounds on a GPU: on, off, or auto (if there is an nvcc that works)")
set(MCNB_CUDA_ARCHITECTURES "80;90" CACHE STRING "GPUs to compile for, by compute capability")
if(NOT MCNB_CUDA MATCHES "^(auto|on|off)$")
  message(FATAL_ERROR "MCNB_CUDA is '${MCNB_CUDA}'; it may be auto, on or off")
endif()

set(device_folder mcnb/bandit/mcnb/device)
set(why "MCNB_CUDA=off")
set(MCNB_NVCC_FLAGS -std=c++20 -O3 -fmad=false -ccbin ${CMAKE_CXX_COMPILER}
    -Xcompiler=-fPIC,-ffp-contract=off -I${PROJECT_SOURCE_DIR})
foreach(architecture ${MCNB_CUDA_ARCHITECTURES})
  list(APPEND MCNB_NVCC_FLAGS -gencode=arch=compute_${architecture},code=sm_${architecture})
endforeach()
list(GET MCNB_CUDA_ARCHITECTURES -1 newest)  # later GPUs compile this when the program starts
list(APPEND MCNB_NVCC_FLAGS -gencode=arch=compute_${newest},code=compute_${newest})

# Sets `why` to an empty text if nvcc works with our compiler and these flags.
function(try_nvcc)
  find_program(MCNB_NVCC nvcc PATHS /usr/local/cuda/bin)
  if(NOT MCNB_NVCC)
    set(why "there is no nvcc" PARENT_SCOPE)
    return()
  endif()
  get_filename_component(folder ${MCNB_NVCC} REALPATH)
  get_filename_component(folder ${folder} DIRECTORY)
  find_library(MCNB_CUDART cudart_static
    PATHS ${folder}/../lib64 ${folder}/../lib ${folder}/../targets/x86_64-linux/lib NO_DEFAULT_PATH)
  if(NOT MCNB_CUDART)
    set(why "${MCNB_NVCC} has no libcudart_static.a" PARENT_SCOPE)
    return()
  endif()
  set(trial ${PROJECT_BINARY_DIR}/cuda_trial)
  file(WRITE ${trial}.cu "#include <span>\n#include <cuda_runtime.h>\n"
    "__global__ void fill(float* x) { x[threadIdx.x] = 1.0F; }\n"
    "void run(std::span<float> x) { fill<<<1, 32>>>(x.data()); }\n")
  execute_process(COMMAND ${MCNB_NVCC} ${MCNB_NVCC_FLAGS} -c ${trial}.cu -o ${trial}.o
    RESULT_VARIABLE failed ERROR_VARIABLE errors OUTPUT_VARIABLE ignored)
  set(why "" PARENT_SCOPE)
  if(failed)
    string(REGEX MATCH "[^\n]*(error|rror:|nsupported)[^\n]*" first "${errors}")
    set(why "${MCNB_NVCC} fails: ${first}" PARENT_SCOPE)
  endif()
endfunction()

# The sanitizers do not see into the code of nvcc. The kernels as plain C++ are tested with them.
if(MCNB_SANITIZE AND MCNB_CUDA STREQUAL "auto")
  set(why "the sanitizers test its kernels as plain C++")
elseif(NOT MCNB_CUDA STREQUAL "off")
  try_nvcc()
endif()
if(why AND MCNB_CUDA STREQUAL "on")
  message(FATAL_ERROR "MCNB_CUDA=on, but ${why}")
endif()
if(why)
  message(STATUS "device=cuda: left out, ${why}")
  return()
endif()

message(STATUS "device=cuda: ${MCNB_NVCC}, for ${MCNB_CUDA_ARCHITECTURES}")
set(object ${PROJECT_BINARY_DIR}/cuda_rounds.o)
set(whole ${PROJECT_BINARY_DIR}/cuda_rounds_with_runtime.o)
add_custom_command(OUTPUT ${object}
  COMMAND ${MCNB_NVCC} ${MCNB_NVCC_FLAGS} -MD -MF ${object}.d
          -c ${PROJECT_SOURCE_DIR}/${device_folder}/cuda_rounds.cu -o ${object}
  DEPENDS ${PROJECT_SOURCE_DIR}/${device_folder}/cuda_rounds.cu
  DEPFILE ${object}.d COMMENT "Compiling cuda_rounds.cu with nvcc" VERBATIM)
add_custom_command(OUTPUT ${whole}
  COMMAND ${CMAKE_LINKER} -r ${object} ${MCNB_CUDART} -o ${whole}
  DEPENDS ${object} COMMENT "Adding the CUDA runtime" VERBATIM)
set_source_files_properties(${whole} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
set_source_files_properties(${PROJECT_SOURCE_DIR}/${device_folder}/no_cuda.cpp PROPERTIES
  HEADER_FILE_ONLY ON)
target_sources(mcnb_bandit PRIVATE ${whole})
