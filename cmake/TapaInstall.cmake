# What `cmake --install` puts where, and how others find it: a CMake package, a pkg-config file, and paths inside the
# installed files that are relative, so that the tree may be moved.
include(CMakePackageConfigHelpers)
set(TAPA_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tapa)

install(DIRECTORY libtapa/include/tapa DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT libtapa-dev
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(TARGETS tapa EXPORT tapa-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libtapa NAMELINK_COMPONENT libtapa-dev
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS tapa_preload LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libtapa)
# Scripts: the cluster's parts lie together, and its name is a relative link to it.
install(PROGRAMS tools/preload-path DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME tapa-preload-path)
install(PROGRAMS tools/cluster DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/tapa)
install(DIRECTORY tools/cluster.d DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/tapa USE_SOURCE_PERMISSIONS
  PATTERN "__pycache__" EXCLUDE)
file(RELATIVE_PATH libexec_from_bin ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBEXECDIR})
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/package)
file(CREATE_LINK ${libexec_from_bin}/tapa/cluster ${CMAKE_BINARY_DIR}/package/tapa-cluster SYMBOLIC)
install(FILES ${CMAKE_BINARY_DIR}/package/tapa-cluster DESTINATION ${CMAKE_INSTALL_BINDIR})

install(EXPORT tapa-targets NAMESPACE tapa:: DESTINATION ${TAPA_CMAKE_DIR} COMPONENT libtapa-dev)
configure_package_config_file(cmake/tapa-config.cmake.in ${CMAKE_BINARY_DIR}/package/tapa-config.cmake
  INSTALL_DESTINATION ${TAPA_CMAKE_DIR} PATH_VARS CMAKE_INSTALL_LIBDIR
  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/tapa-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/tapa-config.cmake ${CMAKE_BINARY_DIR}/package/tapa-config-version.cmake
  DESTINATION ${TAPA_CMAKE_DIR} COMPONENT libtapa-dev)

# pkg-config: the prefix is where the file itself lies, as many folders up as the library folder is deep.
file(RELATIVE_PATH TAPA_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(TAPA_PC_MPI_CFLAGS "")
foreach(definition ${MPI_C_COMPILE_DEFINITIONS})
  string(APPEND TAPA_PC_MPI_CFLAGS " -D${definition}")
endforeach()
foreach(dir ${MPI_C_INCLUDE_DIRS})
  string(APPEND TAPA_PC_MPI_CFLAGS " -I${dir}")
endforeach()
list(JOIN MPI_C_LIBRARIES " " TAPA_PC_MPI_LIBS)
foreach(library ${MPI_C_LIBRARIES})
  get_filename_component(dir ${library} DIRECTORY)
  if(NOT dir IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    string(APPEND TAPA_PC_MPI_LIBS " -Wl,-rpath,${dir}")
  endif()
endforeach()
configure_file(cmake/tapa.pc.in ${CMAKE_BINARY_DIR}/package/tapa.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/package/tapa.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT libtapa-dev)
