# The pages that are installed: README, CHANGELOG, LICENSE and docs/, in the same folders to each other. A link to a file that
# is not installed (sources, tests, examples) becomes its text alone, and programs are called as they are once installed.
set(TAPA_DOC_FOLDERS "common|libtapa|libdit|plugins|tools|tests|bench|examples|packaging|cmake|CONTRIBUTING\\.md")
file(GLOB pages CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/docs/*.md)
list(REMOVE_ITEM pages docs/mainpage.md)  # of the reference of the headers
foreach(page README.md CHANGELOG.md ${pages})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${page})
  file(READ ${PROJECT_SOURCE_DIR}/${page} text)
  string(REGEX REPLACE "\\[([^]\n]*)\\]\\((\\.\\./)?(${TAPA_DOC_FOLDERS})[^)\n]*\\)" "\\1" text "${text}")
  string(REGEX REPLACE "build/release/bin/(tapa|dit )" "\\1" text "${text}")
  string(REGEX REPLACE "tools/(cluster|preload-path)" "tapa-\\1" text "${text}")
  set(target ${CMAKE_BINARY_DIR}/package/doc/${page})
  file(WRITE ${target} "${text}")
  get_filename_component(folder ${page} DIRECTORY)
  install(FILES ${target} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()
file(GLOB pictures CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.svg)
install(FILES ${pictures} DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
