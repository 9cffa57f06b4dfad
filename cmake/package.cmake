# A Debian package of the program with its service: cpack -G DEB --config build/release/CPackConfig.cmake
install(FILES packaging/mcnb.service DESTINATION lib/systemd/system COMPONENT program)
install(FILES packaging/serve.toml DESTINATION /etc/mcnb COMPONENT configuration EXCLUDE_FROM_ALL)
install(FILES README.md CHANGELOG.md LICENSE docs/HTTP_API.md docs/GUARANTEES.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(FILES examples/client.py packaging/grafana-dashboard.json
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program)
install(DIRECTORY experiments DESTINATION share/mcnb COMPONENT program
        FILES_MATCHING PATTERN "*.toml")

# The program writes its manual page and its completion for shells.
set(pages ${PROJECT_BINARY_DIR}/pages)
file(MAKE_DIRECTORY ${pages})
set(page_files)
foreach(page "manual mcnb.1" "completion;bash mcnb" "completion;zsh _mcnb" "completion;fish mcnb.fish")
  string(REGEX MATCH "^([^ ]*) (.*)$" unused "${page}")
  add_custom_command(OUTPUT ${pages}/${CMAKE_MATCH_2}
    COMMAND mcnb ${CMAKE_MATCH_1} > ${pages}/${CMAKE_MATCH_2} VERBATIM)
  list(APPEND page_files ${pages}/${CMAKE_MATCH_2})
endforeach()
add_custom_command(OUTPUT ${pages}/mcnb.1.gz
  COMMAND gzip -9nc ${pages}/mcnb.1 > ${pages}/mcnb.1.gz DEPENDS ${pages}/mcnb.1 VERBATIM)
add_custom_command(OUTPUT ${pages}/changelog.gz
  COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/packaging/changelog > ${pages}/changelog.gz
  DEPENDS ${PROJECT_SOURCE_DIR}/packaging/changelog VERBATIM)
add_custom_target(mcnb_pages ALL DEPENDS ${page_files} ${pages}/mcnb.1.gz ${pages}/changelog.gz)
install(FILES ${pages}/mcnb.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${pages}/mcnb DESTINATION share/bash-completion/completions COMPONENT program)
install(FILES ${pages}/_mcnb DESTINATION share/zsh/vendor-completions COMPONENT program)
install(FILES ${pages}/mcnb.fish DESTINATION share/fish/vendor_completions.d COMPONENT program)
install(FILES ${pages}/changelog.gz packaging/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR}
        COMPONENT program)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME mcnb)
set(CPACK_PACKAGE_CONTACT "the mcnb project <mcnb@example.org>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL program configuration)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS gnuplot-nox)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "clustered contextual bandits: experiments and a service")
set(CPACK_PACKAGE_DESCRIPTION
"A contextual bandit chooses one of several actions for a user, and learns
from the reward of what it chose. mcnb has policies that share what they
learn among users, and compares them on data sets, on logs and on one's own
data. Its service decides and learns over HTTP.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/conffiles)
include(CPack)
