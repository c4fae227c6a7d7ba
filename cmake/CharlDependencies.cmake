# Third-party libraries, each an imported target that exactly one module links (src/CMakeLists.txt).
find_package(OpenCL REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
# MPI is opened at run time (src/dist/mpi.h): its headers, and the name by which the loader knows the library.
list(GET MPI_C_LIBRARIES 0 CHARL_MPI_LIBRARY)
execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${CHARL_MPI_LIBRARY} OUTPUT_VARIABLE header)
if(NOT header MATCHES "SONAME +([^ \n]+)")
  message(FATAL_ERROR "${CHARL_MPI_LIBRARY} is not a shared library; charl opens MPI at run time")
endif()
set(CHARL_MPI_SONAME ${CMAKE_MATCH_1})
add_library(charl_mpi_headers INTERFACE)
target_include_directories(charl_mpi_headers SYSTEM INTERFACE ${MPI_C_INCLUDE_DIRS})
target_compile_definitions(charl_mpi_headers INTERFACE ${MPI_C_COMPILE_DEFINITIONS})
if(CHARL_PORTABLE)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  # HDF5 without its driver for S3, which charl does not use, and what that needs.
  find_path(HDF5_C_INCLUDE_DIRS hdf5.h PATH_SUFFIXES hdf5/serial REQUIRED)
  foreach(library hdf5 sz aec z)
    find_library(CHARL_STATIC_${library} ${library} PATH_SUFFIXES hdf5/serial REQUIRED)
    list(APPEND HDF5_C_LIBRARIES ${CHARL_STATIC_${library}})
  endforeach()
else()
  find_package(HDF5 REQUIRED COMPONENTS C)
endif()
find_package(ZLIB REQUIRED)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
# Optional. Each is a target that is empty where the library is missing; CHARL_HAVE_name tells the sources.
function(charl_optional name)
  if(NOT TARGET charl_${name})
    add_library(charl_${name} INTERFACE)
  endif()
  foreach(library IN LISTS ARGN)
    if(${library}_FOUND)
      target_link_libraries(charl_${name} INTERFACE PkgConfig::${library})
      target_compile_definitions(charl_${name} INTERFACE CHARL_HAVE_${library})
    endif()
  endforeach()
endfunction()
pkg_check_modules(PNG IMPORTED_TARGET libpng)
pkg_check_modules(JPEG IMPORTED_TARGET libjpeg)
charl_optional(image_files PNG JPEG) # image files of these kinds
pkg_check_modules(PCRE2 IMPORTED_TARGET libpcre2-8)
charl_optional(pcre2 PCRE2) # the words of byte pair encoding
pkg_check_modules(JANSSON IMPORTED_TARGET jansson>=2.14)
charl_optional(jansson JANSSON) # reading safetensors and tokenizer.json
pkg_check_modules(UTF8PROC IMPORTED_TARGET libutf8proc)
charl_optional(utf8proc UTF8PROC) # tokenizers that normalize text
if(NOT CHARL_PORTABLE) # Debian has no static one
  pkg_check_modules(LZF IMPORTED_TARGET liblzf)
endif()
charl_optional(lzf LZF) # HDF5 files compressed with h5py's lzf

if(NOT TARGET charl_hdf5)
  add_library(charl_hdf5 INTERFACE)
  target_include_directories(charl_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
  target_link_libraries(charl_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
endif()
