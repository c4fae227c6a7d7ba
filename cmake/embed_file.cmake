# Write OUT: FILE as an array of bytes, `const char NAME[]` with a NUL behind it, declared in HEADER.
file(READ "${FILE}" hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE "${OUT}" "#include \"${HEADER}\"\n\nstatic const unsigned char bytes[] = {${bytes}0x00};\nconst char *const ${NAME} = (const char *)bytes;\n")
