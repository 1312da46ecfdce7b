# What `cmake --install` puts where of libdit: the C interface, its headers, a CMake package and a pkg-config file. Plugins
# install themselves beside the library, where it looks for them. No MPI is needed.
include(CMakePackageConfigHelpers)
set(DIT_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/dit)

install(DIRECTORY libdit/include/dit DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT libdit-dev FILES_MATCHING PATTERN "*.h")
install(TARGETS dit_library EXPORT dit-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libdit NAMELINK_COMPONENT libdit-dev
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

install(EXPORT dit-targets NAMESPACE dit:: FILE dit-config.cmake DESTINATION ${DIT_CMAKE_DIR} COMPONENT libdit-dev)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/dit-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/dit-config-version.cmake DESTINATION ${DIT_CMAKE_DIR} COMPONENT libdit-dev)

file(RELATIVE_PATH DIT_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/dit.pc.in ${CMAKE_BINARY_DIR}/package/dit.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/package/dit.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT libdit-dev)
