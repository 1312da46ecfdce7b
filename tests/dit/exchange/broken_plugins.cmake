# libdit-exchange-broken-NAME.so from each broken_NAME.c, in a folder of their own; broken_garbage is no library at all.
set(DIT_BROKEN_DIR ${CMAKE_BINARY_DIR}/bin/tests/broken-plugins)
set(DIT_BROKEN_TARGETS "")
foreach(name no_entry version refuses short_table null_function no_name open silent symbol)
  add_library(dit_broken_${name} MODULE broken_${name}.c)
  target_include_directories(dit_broken_${name} PRIVATE ${PROJECT_SOURCE_DIR}/libdit/include)
  target_link_libraries(dit_broken_${name} PRIVATE tapa_build_flags)
  target_compile_options(dit_broken_${name} PRIVATE -Wno-unused-function)  # of the common table
  set_target_properties(dit_broken_${name} PROPERTIES OUTPUT_NAME dit-exchange-broken_${name}
                        LIBRARY_OUTPUT_DIRECTORY ${DIT_BROKEN_DIR})
  list(APPEND DIT_BROKEN_TARGETS dit_broken_${name})
endforeach()
file(WRITE ${DIT_BROKEN_DIR}/libdit-exchange-broken_garbage.so "this is not a shared library\n")
