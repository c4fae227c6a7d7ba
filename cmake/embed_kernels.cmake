# Write OUT: the files KERNELS as byte arrays and a table of their names below ROOT. Byte arrays have no literal-length limit
# and need no escaping; nothing but CMake is needed.
set(body "#include \"device/kernel_source.h\"\n\n")
set(table "")
foreach(path IN LISTS KERNELS)
  file(RELATIVE_PATH name "${ROOT}" "${path}")
  string(MAKE_C_IDENTIFIER "${name}" id)
  file(READ "${path}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND body "static const unsigned char k_${id}[] = {${bytes}0x00};\n")
  string(APPEND table "    {\"${name}\", (const char *)k_${id}},\n")
endforeach()
file(WRITE "${OUT}" "${body}\nconst charl__kernel_source charl__kernel_sources[] = {\n${table}    {0, 0}\n};\n")
