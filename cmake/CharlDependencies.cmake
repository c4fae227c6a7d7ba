# Third-party libraries, each an imported target that exactly one module links (src/CMakeLists.txt).
find_package(OpenCL REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
find_package(HDF5 REQUIRED COMPONENTS C)
find_package(ZLIB REQUIRED)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(INIH REQUIRED IMPORTED_TARGET inih)
pkg_check_modules(JANSSON IMPORTED_TARGET jansson) # optional: reading safetensors

if(NOT TARGET charl_hdf5)
  add_library(charl_hdf5 INTERFACE)
  target_include_directories(charl_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
  target_link_libraries(charl_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
endif()
