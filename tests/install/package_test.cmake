# Makes the Debian package of the build in build_dir and looks into it.
# Called with -D build_dir, work_dir and version.

file(REMOVE_RECURSE ${work_dir})
file(MAKE_DIRECTORY ${work_dir})
execute_process(COMMAND ${CMAKE_CPACK_COMMAND} -G DEB --config ${build_dir}/CPackConfig.cmake
                        -B ${work_dir}
                RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
file(GLOB packages ${work_dir}/mcnb_${version}*.deb)
list(LENGTH packages count)
if(NOT result EQUAL 0 OR NOT count EQUAL 1)
  message(FATAL_ERROR "no package:\n${text}")
endif()

execute_process(COMMAND dpkg-deb --contents ${packages} OUTPUT_VARIABLE contents)
foreach(file /usr/bin/mcnb /usr/lib/systemd/system/mcnb.service /etc/mcnb/serve.toml
             /usr/share/doc/mcnb/HTTP_API.md /usr/share/doc/mcnb/copyright
             /usr/share/doc/mcnb/examples/grafana-dashboard.json
             /usr/share/mcnb/experiments/fig-users.toml
             /usr/share/doc/mcnb/changelog.gz /usr/share/man/man1/mcnb.1.gz
             /usr/share/bash-completion/completions/mcnb /usr/share/zsh/vendor-completions/_mcnb
             /usr/share/fish/vendor_completions.d/mcnb.fish)
  string(FIND "${contents}" " .${file}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "${file} is not in the package:\n${contents}")
  endif()
endforeach()
execute_process(COMMAND dpkg-deb --field ${packages} Depends OUTPUT_VARIABLE depends)
foreach(library libssl3 libsqlite3 libsimdjson)
  string(FIND "${depends}" "${library}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "the package does not depend on ${library}: ${depends}")
  endif()
endforeach()

execute_process(COMMAND dpkg-deb --field ${packages} Recommends OUTPUT_VARIABLE recommends)
if(NOT recommends MATCHES "gnuplot-nox")
  message(FATAL_ERROR "the package does not recommend gnuplot-nox: ${recommends}")
endif()
find_program(lintian lintian REQUIRED)
execute_process(COMMAND ${lintian} --fail-on error ${packages}
                RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_QUIET)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "lintian finds errors:\n${text}")
endif()

# The program inside runs.
execute_process(COMMAND dpkg-deb --extract ${packages} ${work_dir}/unpacked)
execute_process(COMMAND ${work_dir}/unpacked/usr/bin/mcnb serve --config
                        ${work_dir}/unpacked/etc/mcnb/serve.toml --print-config
                RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the program of the package does not run: ${text}")
endif()
