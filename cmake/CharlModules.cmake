# What src/layers.txt says: CHARL_LIBRARIES, lowest first, and of each CHARL_HEADERS_OF_library and CHARL_NEEDS_OF_library, other libraries; of a
# module CHARL_LIBRARY_OF_module and CHARL_USES_OF_module.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/layers.txt)
file(STRINGS ${PROJECT_SOURCE_DIR}/src/layers.txt rows REGEX "^[a-z]")
set(CHARL_LIBRARIES)
foreach(row IN LISTS rows)
  if(NOT row MATCHES "^([a-z]+) +[|] ([a-z]+) +[|] ([a-z ]*)[|] ([a-z_ ]+)$")
    message(FATAL_ERROR "src/layers.txt: ${row}")
  endif()
  set(library ${CMAKE_MATCH_1})
  set(module ${CMAKE_MATCH_2})
  set(CHARL_LIBRARY_OF_${module} ${library})
  separate_arguments(CHARL_USES_OF_${module} UNIX_COMMAND "${CMAKE_MATCH_3}")
  separate_arguments(headers UNIX_COMMAND "${CMAKE_MATCH_4}")
  list(APPEND CHARL_HEADERS_OF_${library} ${headers})
  list(APPEND CHARL_LIBRARIES ${library})
  foreach(used IN LISTS CHARL_USES_OF_${module})
    if(NOT CHARL_LIBRARY_OF_${used} STREQUAL library)
      list(APPEND CHARL_NEEDS_OF_${library} ${CHARL_LIBRARY_OF_${used}})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES CHARL_NEEDS_OF_${library})
endforeach()
list(REMOVE_DUPLICATES CHARL_LIBRARIES)

# libcharl.so is charl::charl, libcharl-train.so charl::train.
function(charl_library_name library out)
  if(library STREQUAL charl)
    set(${out} charl PARENT_SCOPE)
  else()
    set(${out} charl-${library} PARENT_SCOPE)
  endif()
endfunction()

set(CMAKE_C_VISIBILITY_PRESET hidden) # include/charl/api.h: what its headers declare is seen outside of the shared library
add_library(charl_flags INTERFACE)
target_compile_options(charl_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers # absent fields are zero: tables rely on it
  -Wpedantic -Wshadow -Wconversion -Wsign-conversion
  -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Wcast-qual -Wdouble-promotion -Wformat=2 -Wwrite-strings
  -ffp-contract=off # a host sum has the same bits on every machine
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

# charl_module(NAME [target...]): one static library from src/NAME, with the libraries of others that it uses. What a module links is what it may
# include; tests/lint checks the includes. Names of libcharl that cross files are protected and not hidden, as the libraries above it use some
# (cmake/symbols.map.in).
function(charl_module name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.c)
  set(uses ${CHARL_USES_OF_${name}})
  list(TRANSFORM uses PREPEND charl_)
  set_property(GLOBAL APPEND PROPERTY CHARL_MODULES ${name})
  set_property(GLOBAL APPEND PROPERTY CHARL_MODULES_OF_${CHARL_LIBRARY_OF_${name}} ${name})
  set_property(GLOBAL APPEND PROPERTY CHARL_OTHERS_OF_${CHARL_LIBRARY_OF_${name}} ${ARGN})
  add_library(charl_${name} STATIC ${sources})
  target_link_libraries(charl_${name} PUBLIC charl_flags ${uses} PRIVATE ${ARGN})
  if(CHARL_LIBRARY_OF_${name} STREQUAL charl)
    set_target_properties(charl_${name} PROPERTIES C_VISIBILITY_PRESET protected)
  endif()
endfunction()

# charl_library(NAME): its modules as a shared library, charl::NAME. What it is linked with is its own business: nothing of OpenCL, MPI or HDF5 is in
# its headers. With CHARL_PORTABLE all modules are in the first, as HDF5, which several of them use, is linked in.
function(charl_library library)
  get_property(modules GLOBAL PROPERTY CHARL_MODULES_OF_${library})
  get_property(others GLOBAL PROPERTY CHARL_OTHERS_OF_${library})
  list(TRANSFORM CHARL_NEEDS_OF_${library} PREPEND charl:: OUTPUT_VARIABLE needs)
  if(CHARL_PORTABLE)
    if(NOT library STREQUAL charl)
      add_library(charl::${library} ALIAS charl_charl_shared)
      return()
    endif()
    get_property(modules GLOBAL PROPERTY CHARL_MODULES)
    foreach(each IN LISTS CHARL_LIBRARIES)
      get_property(others_of_each GLOBAL PROPERTY CHARL_OTHERS_OF_${each})
      list(APPEND others ${others_of_each})
    endforeach()
    list(REMOVE_DUPLICATES others)
  endif()
  charl_library_name(${library} name)
  list(TRANSFORM modules REPLACE "(.+)" "$<TARGET_OBJECTS:charl_\\1>" OUTPUT_VARIABLE objects)
  set(target charl_${library}_shared)
  add_library(${target} SHARED ${objects})
  if(CHARL_PORTABLE)
    target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/streams.c)
  endif()
  add_library(charl::${library} ALIAS ${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} EXPORT_NAME ${library} VERSION ${PROJECT_VERSION} SOVERSION ${CHARL_SOVERSION}
    LINKER_LANGUAGE C)
  target_link_options(${target} PRIVATE -Wl,--no-undefined -Wl,--as-needed -Wl,--exclude-libs,ALL -Wl,-z,nodelete # others have its functions
    $<$<BOOL:${CHARL_SANITIZE}>:-fsanitize=address,undefined> $<$<BOOL:${CHARL_COVERAGE}>:--coverage>)
  target_link_libraries(${target} PUBLIC ${needs} PRIVATE ${others})
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  if(library STREQUAL charl)
    set(map ${PROJECT_BINARY_DIR}/symbols.map)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/symbols.map.in ${map} @ONLY)
    target_link_options(${target} PRIVATE -Wl,--version-script=${map})
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${map})
  endif()
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
