# charl_module(NAME [DEPS module...] [PRIVATE target...]): one static library from src/NAME. What a module may link
# is what it may include; tests/lint checks the includes.
add_library(charl_flags INTERFACE)
target_compile_options(charl_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers # absent fields are zero: tables rely on it
  -Wpedantic -Wshadow -Wconversion -Wsign-conversion
  -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Wcast-qual -Wdouble-promotion -Wformat=2 -Wwrite-strings
  -ffp-contract=off # a host sum has the same bits on every machine
  -fvisibility=hidden # include/charl/api.h: what its headers declare is seen outside of the shared library
  $<$<BOOL:${CHARL_WERROR}>:-Werror>)
target_compile_definitions(charl_flags INTERFACE _POSIX_C_SOURCE=200809L CL_TARGET_OPENCL_VERSION=120)
configure_file(${PROJECT_SOURCE_DIR}/include/charl/version.h.in ${PROJECT_BINARY_DIR}/include/charl/version.h @ONLY)
target_include_directories(charl_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include ${PROJECT_SOURCE_DIR}/src)
if(CHARL_SANITIZE)
  # -O1: at -O0 the tests wait for their references in double. To follow variables through what is optimized takes gcc a fifth of the
  # time of compiling.
  target_compile_options(charl_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer -O1 $<$<C_COMPILER_ID:GNU>:-fno-var-tracking>)
  target_link_options(charl_flags INTERFACE -fsanitize=address,undefined)
endif()

if(CHARL_COVERAGE)
  # Atomic: charl has threads. At -O1 the references of the operators take a third of the time.
  target_compile_options(charl_flags INTERFACE --coverage -fprofile-update=atomic -O1)
  target_link_options(charl_flags INTERFACE --coverage)
endif()

if(CHARL_FUZZ)
  target_compile_options(charl_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

function(charl_module name)
  cmake_parse_arguments(M "" "" "DEPS;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.c)
  list(TRANSFORM M_DEPS PREPEND charl_)
  if(NOT sources) # a library needs one source
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/${name}_empty.c)
    file(CONFIGURE OUTPUT ${sources} CONTENT "typedef int charl_${name}_is_empty;\n")
  endif()
  set_property(GLOBAL APPEND PROPERTY CHARL_MODULES ${name})
  add_library(charl_${name} STATIC ${sources})
  target_link_libraries(charl_${name} PUBLIC charl_flags ${M_DEPS} PRIVATE ${M_PRIVATE})
endfunction()

# charl_rows(FOLDER ARRAY HEADER TYPE PREFIX [FIRST name...] [LAST name...]): the array of the rows that the files of src/FOLDER define
# (cmake/list_rows.cmake), which HEADER declares. FIRST are the names that come first wherever names are listed or tried in turn.
function(charl_rows folder array header type prefix)
  cmake_parse_arguments(R "" "" "FIRST;LAST" ${ARGN})
  string(REGEX REPLACE "/.*" "" module ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.c)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${array}.c)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DARRAY=${array} -DHEADER=${header} -DTYPE=${type} -DPREFIX=${prefix} "-DFIRST=${R_FIRST}" "-DLAST=${R_LAST}"
      "-DSOURCES=${sources}" -P ${PROJECT_SOURCE_DIR}/cmake/list_rows.cmake
    DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/cmake/list_rows.cmake VERBATIM)
  target_sources(charl_${module} PRIVATE ${out})
endfunction()
