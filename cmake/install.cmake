# Headers, and what find_package(mcnb CONFIG) and pkg-config need. Everything can be moved after
# installation: paths are relative to the installed files.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mcnb)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY mcnb/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mcnb
        FILES_MATCHING PATTERN "*.h" PATTERN "cli" EXCLUDE PATTERN "serve" EXCLUDE)

install(EXPORT mcnb NAMESPACE mcnb:: FILE mcnbTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/mcnbConfig.cmake.in ${PROJECT_BINARY_DIR}/mcnbConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mcnbConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mcnbConfig.cmake ${PROJECT_BINARY_DIR}/mcnbConfigVersion.cmake
        DESTINATION ${package_dir})

# The linker wants a library before those it uses: the layers in reverse.
get_property(layers GLOBAL PROPERTY MCNB_LAYERS)
list(REVERSE layers)
list(TRANSFORM layers PREPEND "-lmcnb_")
list(JOIN layers " " MCNB_PC_LIBRARIES)
file(RELATIVE_PATH MCNB_PC_PREFIX /${pkgconfig_dir} /)
string(REGEX REPLACE "/$" "" MCNB_PC_PREFIX "${MCNB_PC_PREFIX}")
configure_file(cmake/mcnb.pc.in ${PROJECT_BINARY_DIR}/mcnb.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/mcnb.pc DESTINATION ${pkgconfig_dir})
