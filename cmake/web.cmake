# The dashboard: Debian's esbuild bundles web/src with Chart.js into one script, and the files of
# the pages become arrays in the program. Everything is there after `./run`; nothing is fetched.
if(CMAKE_SCRIPT_MODE_FILE)
  string(REPEAT "......." 14 fourteen)  # bytes, each as '\x00',
  set(text "#include \"mcnb/serve/http/page.h\"\n\nnamespace mcnb {\n")
  foreach(name html script style docs docs_script)
    file(READ ${${name}} bytes HEX)
    string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${bytes}")
    string(REGEX REPLACE "(${fourteen})" "\\1\n" bytes "${bytes}")
    string(APPEND text "static constexpr char k_${name}[] = {\n${bytes}};\n"
           "std::string_view page_${name}() { return {k_${name}, sizeof k_${name}}; }\n")
  endforeach()
  file(WRITE ${output} "${text}}  // namespace mcnb\n")
  return()
endif()

find_program(MCNB_ESBUILD esbuild)
set(MCNB_NODE_MODULES /usr/share/nodejs CACHE PATH "Where Debian's node-chart.js is")
if(NOT MCNB_ESBUILD OR NOT EXISTS ${MCNB_NODE_MODULES}/chart.js)
  message(FATAL_ERROR "esbuild or node-chart.js is missing: apt-get install esbuild node-chart.js")
endif()
file(GLOB page_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/src/*.ts)
set(page_dir ${PROJECT_BINARY_DIR}/page)
foreach(script page docs)
  add_custom_command(
    OUTPUT ${page_dir}/${script}.js
    COMMAND ${CMAKE_COMMAND} -E env NODE_PATH=${MCNB_NODE_MODULES} ${MCNB_ESBUILD}
            ${PROJECT_SOURCE_DIR}/web/src/${script}.ts --bundle --minify --format=iife
            --target=es2020 --charset=utf8 --legal-comments=none --log-level=warning
            --outfile=${page_dir}/${script}.js
    DEPENDS ${page_sources}
    COMMENT "Bundling ${script}.js")
endforeach()
add_custom_command(
  OUTPUT ${page_dir}/page.cpp
  COMMAND ${CMAKE_COMMAND} -D html=${PROJECT_SOURCE_DIR}/web/index.html
          -D script=${page_dir}/page.js -D style=${PROJECT_SOURCE_DIR}/web/page.css
          -D docs=${PROJECT_SOURCE_DIR}/web/docs.html -D docs_script=${page_dir}/docs.js
          -D output=${page_dir}/page.cpp -P ${PROJECT_SOURCE_DIR}/cmake/web.cmake
  DEPENDS ${page_dir}/page.js ${page_dir}/docs.js ${PROJECT_SOURCE_DIR}/web/index.html
          ${PROJECT_SOURCE_DIR}/web/docs.html ${PROJECT_SOURCE_DIR}/web/page.css
          ${PROJECT_SOURCE_DIR}/cmake/web.cmake)
target_sources(mcnb_serve PRIVATE ${page_dir}/page.cpp)
set_source_files_properties(${page_dir}/page.cpp PROPERTIES
  SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
