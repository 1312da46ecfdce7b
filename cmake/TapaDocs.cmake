# `cmake --build build/release --target docs`: build/release/docs/html/index.html. A warning fails it.
find_program(DOXYGEN_EXECUTABLE doxygen)
if(NOT DOXYGEN_EXECUTABLE)
  tapa_note("doxygen" "off  (not found: install doxygen)")
  return()
endif()
tapa_note("doxygen" "on   (target docs)")
file(GLOB TAPA_PUBLIC_HEADERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/libtapa/include/tapa/*.h*
     ${PROJECT_SOURCE_DIR}/libdit/include/dit/*.h ${PROJECT_SOURCE_DIR}/plugins/torch/include/*.h)
list(JOIN TAPA_PUBLIC_HEADERS " " TAPA_DOXYGEN_INPUT)
configure_file(docs/Doxyfile.in ${CMAKE_BINARY_DIR}/docs/Doxyfile @ONLY)
add_custom_target(docs COMMAND ${DOXYGEN_EXECUTABLE} ${CMAKE_BINARY_DIR}/docs/Doxyfile
  COMMENT "reference: ${CMAKE_BINARY_DIR}/docs/html/index.html" VERBATIM)
