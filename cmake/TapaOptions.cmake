# Compiler settings that every target of this project shares.
option(TAPA_BUILD_TESTS "build the tests" ON)
option(TAPA_BUILD_EXAMPLES "build the examples" ON)
option(TAPA_WERROR "treat warnings in our own code as errors" OFF)
option(TAPA_FUZZ "build the fuzzers of tests/fuzz, with clang and libFuzzer, and no other test" OFF)
set(TAPA_SANITIZE "" CACHE STRING "sanitizers to build with: empty, address+undefined, thread")
set_property(CACHE TAPA_SANITIZE PROPERTY STRINGS "" "address+undefined" "thread")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
# Programs and libraries find our libraries relative to themselves, in the build tree and once installed; libraries in
# unusual places (an MPI of one's own) by the paths they were linked from.
file(RELATIVE_PATH libdir_from_bindir ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set(CMAKE_INSTALL_RPATH "$ORIGIN" "$ORIGIN/${libdir_from_bindir}" "$ORIGIN/../lib")
list(REMOVE_DUPLICATES CMAKE_INSTALL_RPATH)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
# One path for both trees: where CMake has to change it at installation it marks the build tree's with a colon at its end,
# and that empty element is the current folder of whoever starts the program. Tests, which are not installed, lie deeper.
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

# What pkg-config tells users of our libraries: where the loader finds them, unless it looks there anyway.
set(TAPA_PC_RPATH " -Wl,-rpath,\${libdir}")
if(CMAKE_INSTALL_FULL_LIBDIR IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
  set(TAPA_PC_RPATH "")
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
# ccache keeps nothing of sources with precompiled headers unless it is told that these are only ever headers.
if(NOT DEFINED ENV{CCACHE_SLOPPINESS})
  foreach(language C CXX)
    if(CMAKE_${language}_COMPILER_LAUNCHER MATCHES "ccache$")
      set(CMAKE_${language}_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${CMAKE_${language}_COMPILER_LAUNCHER})
    endif()
  endforeach()
endif()

# Link to this to get the project's warnings and sanitizers.
add_library(tapa_build_flags INTERFACE)
target_compile_options(tapa_build_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wpedantic -Wconversion>
  # GCC 12 sees overlaps in std::string that are not there (GCC bug 105651).
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict>
  $<$<AND:$<BOOL:${TAPA_WERROR}>,$<COMPILE_LANGUAGE:C,CXX>>:-Werror>)
if(TAPA_SANITIZE STREQUAL "address+undefined")
  set(TAPA_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
elseif(TAPA_SANITIZE STREQUAL "thread")
  set(TAPA_SANITIZE_FLAGS -fsanitize=thread -fno-omit-frame-pointer)
elseif(NOT TAPA_SANITIZE STREQUAL "")
  message(FATAL_ERROR "TAPA_SANITIZE=${TAPA_SANITIZE}: expected empty, address+undefined or thread")
endif()
if(TAPA_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "TAPA_FUZZ=ON with ${CMAKE_CXX_COMPILER_ID}: expected clang, as in the preset fuzz")
  endif()
  list(APPEND TAPA_SANITIZE_FLAGS -fsanitize=fuzzer-no-link)
endif()
target_compile_options(tapa_build_flags INTERFACE ${TAPA_SANITIZE_FLAGS})
target_link_options(tapa_build_flags INTERFACE ${TAPA_SANITIZE_FLAGS})
# There are hundreds of test programs, and gold, of binutils, links one with libtorch in a tenth of the time.
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=gold TAPA_HAS_GOLD)
if(TAPA_HAS_GOLD AND TAPA_BUILD_TESTS AND NOT TAPA_SANITIZE AND NOT TAPA_FUZZ)
  target_link_options(tapa_build_flags INTERFACE
    $<$<AND:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>,$<LINK_LANGUAGE:C,CXX>>:-fuse-ld=gold>)
endif()
# Programs lie anywhere in memory, and the tables of what they call are read-only before they begin.
include(CheckPIESupported)
check_pie_supported(LANGUAGES C CXX)
target_link_options(tapa_build_flags INTERFACE LINKER:-z,relro LINKER:-z,now)
# Overflows of arrays on the stack, and of what the C library's functions are given, end the program. The second is for
# optimised code; sanitizers have checks of their own. Undefined first: some distributions' compilers define it.
set(TAPA_FORTIFY ON)
if(TAPA_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(TAPA_FORTIFY OFF)
endif()
target_compile_options(tapa_build_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-fstack-protector-strong>
  $<$<AND:$<BOOL:${TAPA_FORTIFY}>,$<COMPILE_LANGUAGE:C,CXX>>:-U_FORTIFY_SOURCE>
  $<$<AND:$<BOOL:${TAPA_FORTIFY}>,$<COMPILE_LANGUAGE:C,CXX>>:-D_FORTIFY_SOURCE=2>)

# Whether there is a libstdc++ for libraries to have copies of. Sanitizers need the shared one.
set(TAPA_HAVE_STATIC_LIBSTDCXX FALSE)
if(NOT TAPA_SANITIZE)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LINK_OPTIONS -shared -static-libstdc++ -static-libgcc)
  check_cxx_source_compiles("void* make() { return ::operator new(1); }" TAPA_STATIC_LIBSTDCXX)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  set(TAPA_HAVE_STATIC_LIBSTDCXX ${TAPA_STATIC_LIBSTDCXX})
endif()
