# Helpers that make programs, tests and libraries look alike.
#
#   tapa_tool(NAME SOURCES... [LIBS ...])
#   tapa_precompile_headers(TARGET PRIVATE HEADERS... | REUSE_FROM TARGET)
#   tapa_compile_quickly()
#   tapa_unit_test(NAME SOURCES... [LIBS ...] [ENV A=B ...] [TIMEOUT s] [SHARDS n] [EXCLUDE PATTERN] [ALONE] [LABELS ...])
#   tapa_run_unit_test(TEST NAME [TIMEOUT s] [ENV A=B ...] [LABELS ...])
#   tapa_mpi_program(NAME SOURCES... [LIBS ...])
#   tapa_mpi_cases(NAME SOURCES... [LIBS ...])
#   tapa_mpi_run(TEST RANKS PROGRAM [WAITS] [ARGS ...] [ENV A=B ...] [TIMEOUT s] [LABELS ...])
#   tapa_script_test(TEST COMMAND ... [ENV A=B ...] [TIMEOUT s] [LABELS ...])
#   tapa_skipped_test(TEST WHY [LABELS ...])
#   tapa_export_only(LIBRARY PATTERN...)
#   tapa_own_libstdcxx(LIBRARY)
#
# A test that cannot run here (a program is missing, no namespaces) exits with 77 and counts as skipped.
# The label "long" keeps a test out of a plain `tools/test`; `tools/test --long` runs it.

# Sanitized and emulated programs are several times slower.
set(TAPA_TIMEOUT_FACTOR 1)
if(TAPA_SANITIZE OR CMAKE_CROSSCOMPILING)
  set(TAPA_TIMEOUT_FACTOR 5)
endif()

# What sanitized programs need; harmless for others. Suppressions name only what Open MPI and friends leak, and the
# slow unwinder sees through their frames, which have no frame pointers.
set(TAPA_TEST_ENV
  "DIT_PLUGIN_PATH=${CMAKE_BINARY_DIR}/lib"  # test programs lie a folder deeper than others
  # Programs that know nothing of sanitizers load ours before the runtime.
  "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:verify_asan_link_order=0"
  "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/lsan.supp:print_suppressions=0"
  "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1"
  "TSAN_OPTIONS=ignore_noninstrumented_modules=1:second_deadlock_stack=1")  # MPI itself is not instrumented
if(TAPA_SANITIZE MATCHES "address")
  add_library(tapa_keep_modules OBJECT ${CMAKE_CURRENT_LIST_DIR}/keep_modules.c)
endif()

# Programs that are not built with the sanitizer get its runtime before the drop-in, which is: behind the C library it
# would not see their threads, and what runs in those crashes in the runtime. Goes before other names in LD_PRELOAD.
set(TAPA_SANITIZER_PRELOAD "")
if(TAPA_SANITIZE)
  set(runtime libasan.so)
  if(TAPA_SANITIZE STREQUAL "thread")
    set(runtime libtsan.so)
  endif()
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${runtime} OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(REAL_PATH ${runtime} runtime)
  set(TAPA_SANITIZER_PRELOAD "${runtime}:")
  list(APPEND TAPA_TEST_ENV "SANITIZER_PRELOAD=${TAPA_SANITIZER_PRELOAD}" "TIMEOUT_FACTOR=${TAPA_TIMEOUT_FACTOR}")
endif()

# What lets many ranks share two cores, as root too, without a network.
set(TAPA_MPIEXEC_FLAGS "")
set(TAPA_MPI_TEST_ENV "")
if(MPIEXEC_EXECUTABLE)
  execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE version ERROR_QUIET)
  if(version MATCHES "Open MPI|OpenRTE")
    set(TAPA_MPIEXEC_FLAGS --oversubscribe --bind-to none)
    set(TAPA_MPI_TEST_ENV
      OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
      OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
      # Else MPI_Init (4.1.4) sets this variable while its own progress thread reads the environment, and one start in
      # many thousands crashes.
      PSM2_DEVICES=self,shm
      OMPI_MCA_btl_vader_single_copy_mechanism=none)  # cross-memory attach is forbidden in many containers
    # Half of what a start costs is that mpirun and each rank look for devices: not where there are none.
    file(GLOB devices /dev/nvidia* /dev/kfd /dev/dri/* /dev/infiniband/* /dev/hfi1*)
    if(NOT devices)
      set(TAPA_QUICK_START OMPI_MCA_pml=ob1 HWLOC_COMPONENTS=-linuxio,-pci HWLOC_PLUGINS_PATH=/nonexistent)
      list(APPEND TAPA_MPI_TEST_ENV ${TAPA_QUICK_START})
    endif()
  elseif(version MATCHES "Intel")
    set(TAPA_MPI_TEST_ENV I_MPI_THREAD_YIELD=3)  # waiting ranks sleep for a microsecond
    set(TAPA_INTEL_MPIEXEC TRUE)
  elseif(version MATCHES "HYDRA")
    # The same for MPICH from 4.1 on, after 16 polls. Else its waiting ranks keep their cores for whole time slices.
    set(TAPA_MPI_TEST_ENV MPIR_CVAR_ENABLE_HEAVY_YIELD=1 MPIR_CVAR_CH4_PROGRESS_THROTTLE=1
      MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT=16)
  endif()
  list(APPEND TAPA_MPI_TEST_ENV
    "ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:verify_asan_link_order=0:fast_unwind_on_malloc=0")
endif()

# A program with what every program of ours is built with.
add_library(tapa_lost_output OBJECT ${PROJECT_SOURCE_DIR}/tools/common/lost_output.c)
target_link_libraries(tapa_lost_output PRIVATE tapa_build_flags)
function(tapa_program name)
  add_executable(${name} ${ARGN} $<TARGET_OBJECTS:tapa_lost_output>)
  if(TARGET tapa_keep_modules)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:tapa_keep_modules>)
    target_link_options(${name} PRIVATE LINKER:--export-dynamic-symbol=dlclose)
  endif()
endfunction()

# For a folder whose code runs once, as tests and command lines do: what takes time there is the compiler, which is to optimise
# less of what the folder adds to a release from here on.
# With names of targets it is for these alone.
macro(tapa_compile_quickly)
  set(quickly $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-Og>)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE ${quickly})
  endforeach()
  if(${ARGC} EQUAL 0)
    add_compile_options(${quickly})
  endif()
endmacro()

# Headers that take long to read (libtorch's: 25 s), read once for a target; or as another target of the same kind has read them.
function(tapa_precompile_headers target)
  target_precompile_headers(${target} ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # for ccache
  endif()
endfunction()

# GoogleTest's headers are half of what the compiler does for most tests: those that have no other precompiled ones share them.
function(tapa_share_test_headers)
  set(first "")
  foreach(target ${ARGN})
    get_target_property(own ${target} PRECOMPILE_HEADERS)
    get_target_property(reused ${target} PRECOMPILE_HEADERS_REUSE_FROM)
    get_target_property(definitions ${target} COMPILE_DEFINITIONS)
    if(own OR reused)
      continue()
    elseif(first)
      tapa_precompile_headers(${target} REUSE_FROM ${first})
    elseif(NOT definitions)  # others could not use what was read with them
      tapa_precompile_headers(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:<gmock/gmock.h$<ANGLE-R>>
                                                $<$<COMPILE_LANGUAGE:CXX>:<gtest/gtest.h$<ANGLE-R>>)
      set(first ${target})
    endif()
  endforeach()
endfunction()

function(tapa_tool name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  tapa_program(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} tapa_build_flags)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  set_property(GLOBAL APPEND PROPERTY TAPA_TOOLS ${name})
endfunction()

# Tests that stand for what strangers and faults do (label `attack`): files and folders of others, libraries and environments,
# sockets and handles, clocks, pages, limits of memory and broken jobs, exchanges that fail.
set(TAPA_ATTACK_TESTS "^(files_|preload_|faults_|api_limits_|program_(cache_|jumping_clock|huge_pages|address_space_)|\
sparse_no_memory_|device_(agreement|socket)_test$|api_environment_(tuning|topology)_|dit_c_(misuse|lost|late|mismatch)|\
dit_(session_status|plain_late|exchange_(arguments|local))$|dit_plugins_(devices|bootstrap|.*_late_|.*_refused)|tools_lost_output)")

# Those that take longest: they begin first, so that none of them is the last one alone.
set(TAPA_LONGEST_TESTS "^(dit_(mpi|misuse|commands|generate)_test|dit_engine_(wire|v_major|exactness)|dit_device_cod.*|\
shm_.*_model|test_shm_buffers.*|tools_(lost_output|flags)|program_cache_(elsewhere|damaged|no_file)|faults_.*|gray_scott_test)$")

# Tests that start as users' programs do, without TAPA_QUICK_START.
set(TAPA_PLAIN_STARTS "^(topology_|program_(calls|fft|fortran|hpcc|lammps|linked|python|scotch|tool_linked))")

# Properties that all tests share. `grace` is added to the limit, for launchers that watch the time themselves.
function(tapa_test_properties test timeout grace env labels)
  if(NOT timeout)
    set(timeout 300)
  endif()
  math(EXPR timeout "${timeout} * ${TAPA_TIMEOUT_FACTOR}")
  math(EXPR limit "${timeout} + ${grace}")
  if(test MATCHES "${TAPA_ATTACK_TESTS}")
    list(APPEND labels attack)
  endif()
  if(test MATCHES "${TAPA_PLAIN_STARTS}" AND TAPA_QUICK_START)
    list(REMOVE_ITEM env ${TAPA_QUICK_START})
  endif()
  if(test MATCHES "${TAPA_LONGEST_TESTS}")
    set_tests_properties(${test} PROPERTIES COST 30)
  endif()
  set_tests_properties(${test} PROPERTIES
    TIMEOUT ${limit} SKIP_RETURN_CODE 77 LABELS "${labels}"
    ENVIRONMENT "${TAPA_TEST_ENV};MPIEXEC_TIMEOUT=${timeout};${env}")
endfunction()

# What cannot run here shows as a skipped test that says why.
function(tapa_skipped_test test why)
  cmake_parse_arguments(ARG "" "" "LABELS" ${ARGN})
  add_test(NAME ${test} COMMAND sh -c "echo \"skipped: $1\"; exit 77" skip ${why})
  set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 LABELS "${ARG_LABELS}")
endfunction()

# GoogleTest cases without MPI. The folder's sources with the same libraries are one program in bin/tests, but each NAME is a test of
# its own that runs the suites of its sources: a crash names it and leaves the others. ALONE: a program for what others' sources
# define, too. A long one runs as several tests, each a share of its cases; EXCLUDE is a pattern of cases that are left out. Target
# `unit_tests` and label `unit` are all of them.
add_custom_target(unit_tests)
function(tapa_unit_test name)
  cmake_parse_arguments(ARG "ALONE" "TIMEOUT;SHARDS;EXCLUDE" "LIBS;ENV;LABELS" ${ARGN})
  set(sources ${ARG_UNPARSED_ARGUMENTS})
  set(objects ${sources})
  list(FILTER objects INCLUDE REGEX "^\\$<")  # other libraries' objects
  list(FILTER sources EXCLUDE REGEX "^\\$<")
  add_library(${name} OBJECT ${sources})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest GTest::gmock tapa_build_flags)
  set_property(GLOBAL APPEND PROPERTY TAPA_UNIT_TESTS ${name})
  if(ARG_ALONE)
    tapa_unit_test_program(program ${name})
  else()
    tapa_unit_test_program(program ${ARG_LIBS})
  endif()
  target_link_libraries(${program} PRIVATE ${name} ${ARG_LIBS})
  get_target_property(has ${program} SOURCES)
  list(REMOVE_ITEM objects ${has})
  target_sources(${program} PRIVATE ${objects})
  tapa_suites_of(filter ${sources})
  if(ARG_EXCLUDE)
    string(APPEND filter "-${ARG_EXCLUDE}")
  endif()
  set_target_properties(${name} PROPERTIES TAPA_COMMAND "${program};--gtest_filter=${filter}")
  if(NOT ARG_SHARDS)
    tapa_run_unit_test(${name} ${name} TIMEOUT "${ARG_TIMEOUT}" ENV ${ARG_ENV} LABELS unit ${ARG_LABELS})
    return()
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    tapa_run_unit_test(${name}_${shard} ${name} TIMEOUT "${ARG_TIMEOUT}" LABELS unit ${ARG_LABELS}
                       ENV GTEST_TOTAL_SHARDS=${ARG_SHARDS} GTEST_SHARD_INDEX=${shard} ${ARG_ENV})
  endforeach()
endfunction()

# tapa_run_unit_test(TEST NAME [TIMEOUT s] [ENV A=B ...] [LABELS ...]): what tapa_unit_test(NAME ...) has made, as one more test.
function(tapa_run_unit_test test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "ENV;LABELS" ${ARGN})
  get_target_property(command ${name} TAPA_COMMAND)
  add_test(NAME ${test} COMMAND ${command})
  tapa_test_properties(${test} "${ARG_TIMEOUT}" 0 "${ARG_ENV}" "${ARG_LABELS}")
endfunction()

# The program of this folder's cases that are linked with these libraries, or of one test.
function(tapa_unit_test_program result)
  file(RELATIVE_PATH room ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  string(MAKE_C_IDENTIFIER "unit_${room}" program)
  string(MAKE_C_IDENTIFIER "with ${ARGN}" libraries)
  get_property(programs DIRECTORY PROPERTY TAPA_UNIT_TEST_PROGRAMS)
  if(NOT programs)
    set(programs ${libraries})
  endif()
  list(FIND programs ${libraries} number)
  if(number EQUAL -1)
    list(LENGTH programs number)
    list(APPEND programs ${libraries})
  endif()
  set_property(DIRECTORY PROPERTY TAPA_UNIT_TEST_PROGRAMS ${programs})
  if(number GREATER 0)
    string(APPEND program "_${number}")
  endif()
  if(NOT TARGET ${program})
    tapa_program(${program})
    set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/tests LINKER_LANGUAGE CXX)
    target_link_libraries(${program} PRIVATE GTest::gtest_main GTest::gmock tapa_build_flags)
    add_dependencies(unit_tests ${program})
  endif()
  set(${result} ${program} PARENT_SCOPE)
endfunction()

# The filter that runs the suites of some sources, with all their parameters.
function(tapa_suites_of result)
  set(patterns "")
  set(sources ${ARGN})
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  foreach(source ${sources})
    get_filename_component(source ${source} ABSOLUTE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(STRINGS ${source} lines REGEX "^(TYPED_)?TEST(_F|_P)?\\(")
    foreach(line ${lines})
      string(REGEX REPLACE "^[A-Z_]+\\( *([A-Za-z0-9_]+).*" "\\1" suite "${line}")
      list(APPEND patterns "${suite}.*" "*/${suite}.*" "${suite}/*")
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES patterns)
  list(JOIN patterns ":" patterns)
  set(${result} "${patterns}" PARENT_SCOPE)
endfunction()

# An MPI test program in bin/tests, without a test of its own.
function(tapa_mpi_program name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  tapa_program(${name} ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} tapa_mpi tapa_build_flags)
endfunction()

# The same of GoogleTest cases, with the main() that they all have.
function(tapa_mpi_cases name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  if(NOT TARGET tapa_mpi_main)
    add_library(tapa_mpi_main OBJECT ${PROJECT_SOURCE_DIR}/tests/api/mpi_main.cpp)
    target_link_libraries(tapa_mpi_main PRIVATE tapa_mpi GTest::gtest GTest::gmock tapa_build_flags)
  endif()
  tapa_mpi_program(${name} ${ARG_UNPARSED_ARGUMENTS} $<TARGET_OBJECTS:tapa_mpi_main> LIBS ${ARG_LIBS} GTest::gtest GTest::gmock)
  set_property(GLOBAL APPEND PROPERTY TAPA_MPI_CASES ${name})
endfunction()

# What a test runs, and what its command and environment name as $<TARGET_FILE:...>, is built with the tests.
function(tapa_tested program)
  string(REGEX MATCHALL "TARGET_FILE:[^>]+" named "${program};${ARGN}")
  list(TRANSFORM named REPLACE "TARGET_FILE:" "")
  if(TARGET "${program}")
    list(APPEND named ${program})
  endif()
  set_property(GLOBAL APPEND PROPERTY TAPA_TESTED ${named})
endfunction()

# Runs a program under mpirun, oversubscribed. mpirun itself ends the job at the time limit (MPIEXEC_TIMEOUT, known to
# Open MPI and MPICH), so that no rank is left behind; ctest's own limit comes later. A job counts as two, one that WAITS for late
# ranks and time limits as one.
function(tapa_mpi_run test ranks program)
  cmake_parse_arguments(ARG "WAITS" "TIMEOUT" "ARGS;ENV;LABELS" ${ARGN})
  if(TARGET ${program})
    set(program ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:${program}>)
  endif()
  tapa_tested(${program} ${ARG_ARGS} ${ARG_ENV})
  add_test(NAME ${test} COMMAND ${MPIEXEC_EXECUTABLE} ${TAPA_MPIEXEC_FLAGS} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
                                ${program} ${ARG_ARGS})
  tapa_test_properties(${test} "${ARG_TIMEOUT}" 15 "${TAPA_MPI_TEST_ENV};${ARG_ENV}" "${ARG_LABELS}")
  if(NOT ARG_WAITS)
    set_tests_properties(${test} PROPERTIES PROCESSORS 2)
  endif()
endfunction()

# Sets `result` to the library that stands for a driver of GPUs, such as libcuda.so.1, by its own name.
function(tapa_fake_driver result driver)
  string(MAKE_C_IDENTIFIER fake_${driver} fake)
  if(NOT TARGET ${fake})
    add_library(${fake} SHARED ${PROJECT_SOURCE_DIR}/tests/run/fake_gpu.c)
    set_target_properties(${fake} PROPERTIES PREFIX "" OUTPUT_NAME ${driver} SUFFIX ""
                          LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/tests)
  endif()
  set(${result} ${fake} PARENT_SCOPE)
endfunction()

# Sets `variable` to the path of a tuning file that has this option and nothing else.
function(tapa_tuning_file variable option value)
  set(path ${CMAKE_CURRENT_BINARY_DIR}/${variable}.json)
  file(CONFIGURE OUTPUT ${path} CONTENT "{\"format\": \"tapa-tuning/1\", \"options\": {\"${option}\": \"${value}\"}}\n")
  set(${variable} ${path} PARENT_SCOPE)
endfunction()

# A test that is a command of its own; has what MPI programs need in its environment. It starts one program after the other and counts
# as one; real programs under the drop-in (label `programs`) are MPI jobs.
function(tapa_script_test test)
  cmake_parse_arguments(ARG "" "TIMEOUT" "COMMAND;ENV;LABELS" ${ARGN})
  tapa_tested(${ARG_COMMAND} ${ARG_ENV})
  add_test(NAME ${test} COMMAND ${ARG_COMMAND})
  tapa_test_properties(${test} "${ARG_TIMEOUT}" 15 "${TAPA_MPI_TEST_ENV};${ARG_ENV}" "${ARG_LABELS}")
  if("programs" IN_LIST ARG_LABELS)
    set_tests_properties(${test} PROPERTIES PROCESSORS 2)
  endif()
endfunction()

# Hides every symbol of a shared library but those that match one of the patterns. Visibility alone is not enough:
# instances of standard templates are exported whatever the compiler is told.
function(tapa_export_only library)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${library}.version)
  list(JOIN ARGN ";\n    " patterns)
  file(CONFIGURE OUTPUT ${script} CONTENT "{\n  global:\n    ${patterns};\n  local:\n    *;\n};\n")
  target_link_options(${library} PRIVATE LINKER:--version-script=${script})
  set_property(TARGET ${library} APPEND PROPERTY LINK_DEPENDS ${script})
endfunction()

# A process has one libstdc++.so, and programs bring theirs: conda's, Spack's, a vendor's. So a library that is loaded into other
# people's programs neither needs one nor brings one; it has a copy of its own, of which tapa_export_only() lets nobody see anything.
function(tapa_own_libstdcxx library)
  if(TAPA_HAVE_STATIC_LIBSTDCXX)
    target_link_options(${library} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
endfunction()
