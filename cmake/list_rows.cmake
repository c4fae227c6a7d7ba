# Write OUT: the array ARRAY of all rows that SOURCES define. A row is defined by a line that begins with
#
#     const TYPE PREFIXname =
#
# The rows named in FIRST come first and those in LAST last, in that order; the others are between, by file name, and within a file in its order.
# OUT is left as it is when nothing changed.
cmake_minimum_required(VERSION 3.25)
set(names "")
foreach(path IN LISTS SOURCES)
  file(STRINGS "${path}" lines REGEX "^const ${TYPE} ${PREFIX}[a-z0-9_]+ =")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^const ${TYPE} ${PREFIX}([a-z0-9_]+) =.*" "\\1" name "${line}")
    list(APPEND names ${name})
  endforeach()
endforeach()
if(NOT names)
  message(FATAL_ERROR "src/CMakeLists.txt: ${ARRAY}: no file defines a row")
endif()
foreach(name IN LISTS FIRST LAST)
  if(NOT name IN_LIST names)
    message(FATAL_ERROR "src/CMakeLists.txt: ${ARRAY}: no file defines ${PREFIX}${name}")
  endif()
endforeach()
if(LAST)
  list(REMOVE_ITEM names ${LAST})
  list(APPEND names ${LAST})
endif()
list(PREPEND names ${FIRST})
list(REMOVE_DUPLICATES names)

set(body "/* Made by cmake/list_rows.cmake. */\n#include \"${HEADER}\"\n\n")
foreach(name IN LISTS names)
  string(APPEND body "extern const ${TYPE} ${PREFIX}${name};\n")
endforeach()
string(APPEND body "\nconst void *const ${ARRAY}[] = {\n")
foreach(name IN LISTS names)
  string(APPEND body "    &${PREFIX}${name},\n")
endforeach()
file(CONFIGURE OUTPUT "${OUT}" CONTENT "${body}    0,\n};\n" @ONLY)
