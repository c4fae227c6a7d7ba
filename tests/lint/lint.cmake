# The checks of the tree itself, label lint.
set(LINT ${CMAKE_CURRENT_LIST_DIR})

set(flags -D_POSIX_C_SOURCE=200809L -DCL_TARGET_OPENCL_VERSION=120 -I${PROJECT_BINARY_DIR}/include)
set(dirs ${OpenCL_INCLUDE_DIRS} ${MPI_C_INCLUDE_DIRS} ${HDF5_C_INCLUDE_DIRS} ${ZLIB_INCLUDE_DIRS})
list(REMOVE_DUPLICATES dirs)
foreach(dir IN LISTS dirs)
  list(APPEND flags -isystem ${dir})
endforeach()

foreach(check layers kernels macros builtins docs paths words env faults format cleanup interface internal)
  add_test(NAME lint/${check} COMMAND sh ${LINT}/${check}.sh ${PROJECT_SOURCE_DIR})
  charl_test_properties(lint/${check} lint 600)
endforeach()
add_test(NAME lint/headers COMMAND sh ${LINT}/headers.sh ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER} ${flags})
charl_test_properties(lint/headers lint 600)
add_test(NAME lint/selftest COMMAND sh ${LINT}/selftest.sh ${LINT} ${CMAKE_C_COMPILER})
charl_test_properties(lint/selftest lint 600)

# docs/devices.md has the table that the reports in devices give.
add_test(NAME lint/devices COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/devices/table.py --check)
charl_test_properties(lint/devices lint 60)
