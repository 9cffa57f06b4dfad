# What the C++ library offers its users: the public headers, and what find_package(mcnb CONFIG) and
# pkg-config need. Everything can be moved after installation: paths are relative to the installed
# files.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mcnb)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The public headers. They need the standard library and each other, nothing else (the install test
# checks that); all other headers are private and may change at any time.
set(public_headers
  base/device.h                     # part of policy.h: what a policy computes on
  base/error.h                      # the exception that everything throws
  base/ids.h                        # users, arms, items and rounds have types of their own
  base/options.h                    # options by name, and what people read about them
  base/random.h                     # addressed random numbers, for policies and environments of your own
  base/state_file.h                 # what Policy::save writes to and Policy::load reads from
  base/thread_pool.h                # the threads that a policy computes on
  numeric/network_shape.h           # how large a network is; check_round of policy.h takes it
  numeric/network.h                 # features and samples, and one network
  bandit/policy.h                   # rounds, arms, scores, and the interface of all policies
  bandit/policy_size.h              # part of policies.h: what a policy will take
  bandit/policies.h                 # makes, saves and loads policies by name
  bandit/user_count.h               # part of basic_policy.h
  bandit/basic_policy.h             # the base of policies of your own
  environment/environment.h         # the interface of all environments
  environment/data_settings.h       # where data sets are
  environment/environments.h        # makes environments by name
  environment/synthetic.h           # the synthetic world as a class, with its true groups
  experiment/run/cluster_quality.h  # how well a policy's clusters match the true ones
  experiment/run/runner.h           # plays a policy in an environment
)
foreach(header ${public_headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES mcnb/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mcnb/${folder})
endforeach()

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
