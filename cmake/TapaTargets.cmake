# tapa_tool(NAME SOURCES... [LIBS ...]): a program in build/<preset>/bin, installed.
function(tapa_tool name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} tapa_build_flags)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# tapa_unit_test(NAME SOURCES... [LIBS ...]): a GoogleTest program without MPI, in bin/tests.
function(tapa_unit_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LIBS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest_main GTest::gmock tapa_build_flags)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
endfunction()

# tapa_mpi_program(NAME SOURCES... [LIBS ...]): an MPI test program in bin/tests, without a test of its own.
function(tapa_mpi_program name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} tapa_mpi tapa_build_flags)
endfunction()

# tapa_mpi_run(TEST RANKS PROGRAM [ARGS ...] [ENV A=B ...] [TIMEOUT s]): runs a program under mpirun, oversubscribed.
function(tapa_mpi_run test ranks program)
  cmake_parse_arguments(ARG "" "TIMEOUT" "ARGS;ENV" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  add_test(NAME ${test} COMMAND ${MPIEXEC_EXECUTABLE} ${TAPA_MPIEXEC_FLAGS} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
                                ${program} ${ARG_ARGS})
  set_tests_properties(${test} PROPERTIES TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${TAPA_MPI_TEST_ENV};${ARG_ENV}"
                                          PROCESSORS 2)
endfunction()

# What lets many ranks share two cores, as root too, without a network.
if(MPIEXEC_EXECUTABLE)
  execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE version ERROR_QUIET)
  if(version MATCHES "Open MPI|OpenRTE")
    set(TAPA_MPIEXEC_FLAGS --oversubscribe --bind-to none)
    set(TAPA_MPI_TEST_ENV "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_mpi_yield_when_idle=1;OMPI_MCA_btl_vader_single_copy_mechanism=none;OMPI_MCA_rmaps_base_oversubscribe=1")
  endif()
endif()
