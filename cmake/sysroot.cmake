# Toolchain of the preset `tarball`: this system's compiler with the C library of Ubuntu 18.04 and static libraries of Debian, so that the
# programs run on every Linux with glibc 2.27 or later. The packages (16 MB) are downloaded once into CHARL_SYSROOT; the hashes are those of
# the distributions' signed lists, and nothing is installed on the system.
#   -DCHARL_SYSROOT=FOLDER                     where they are, or are put (default: sysroot in the build folder)
#   -DCMAKE_TOOLCHAIN_FILE= (with the preset)  without them: for this system's C library and later ones, or for another processor
set(CHARL_GLIBC 2.27) # CharlPackage.cmake sees to it
set(CHARL_SYSROOT ${CMAKE_BINARY_DIR}/sysroot CACHE PATH "packages of older systems that the tarball is made with")
if(CHARL_SYSROOT MATCHES " ")
  message(FATAL_ERROR "pkg-config finds no packages in ${CHARL_SYSROOT}, because of the space: add -DCHARL_SYSROOT=FOLDER without one")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CHARL_SYSROOT)

# Releases that do not change any more, with the hosts that take over their folders later. Debian 11, as its libraries need little of the C
# library; HDF5 and jansson of Debian 12, as charl needs theirs. Whatever is too new for the C library fails to link.
set(ubuntu_hosts http://archive.ubuntu.com http://old-releases.ubuntu.com)
set(debian_hosts http://deb.debian.org http://archive.debian.org)
set(ubuntu ubuntu/pool/main)
set(debian debian/pool/main)
set(updates debian-security/pool/updates/main)
set(packages
  ${ubuntu}/g/glibc/libc6_2.27-3ubuntu1_amd64.deb                         1e1eb86fd646aa68f7144ec692b837b6b352d215880c6a2d0c92c19d36938427
  ${ubuntu}/g/glibc/libc6-dev_2.27-3ubuntu1_amd64.deb                     e426c70a940a7d0c5c95823a5fd01f26bd8bcb08d109df2f8c96c439da8dc440
  ${ubuntu}/g/gcc-8/libgcc1_8-20180414-1ubuntu2_amd64.deb                 c5a6df527fdfe0da45ff0538414535a04a6753e93a9f5902689cf1a73265423b
  ${ubuntu}/l/linux/linux-libc-dev_4.15.0-20.21_amd64.deb                 4a73fc5ea2d0284e9c9c84cba68cbe5880505afbae0a3201c65c336daf8f8239
  ${debian}/h/hdf5/libhdf5-dev_1.10.8+repack1-1_amd64.deb                   1d4ab312400e0ce0ccbc2eafbb328303d0fd06d1c22d6df0d5ac8b3e9968e235
  ${debian}/liba/libaec/libaec-dev_1.0.4-1_amd64.deb                        3ba97db821de7727f29dc0c648c6b28a5603b10e35c31d986f948728c8716c2a
  ${debian}/z/zlib/zlib1g-dev_1.2.11.dfsg-2+deb11u2_amd64.deb               f49fc849870c4e64fed2794722841ee950c1788f7fe90b3a091e6a098a46cd33
  ${updates}/libp/libpng1.6/libpng-dev_1.6.37-3+deb11u4_amd64.deb         b0af35e1ee414b1503e84b8d76fd55d69f42e8899363e26a2e41817a18b82e04
  ${debian}/libj/libjpeg-turbo/libjpeg62-turbo-dev_2.0.6-4_amd64.deb        a3e7ccd1a02c147867e5bf29dd35e16246ad4def19421e73e46fee51fe487baf
  ${debian}/j/jansson/libjansson-dev_2.14-2_amd64.deb                       72ab3de35bd7b0ae26ca71c44a4b72dccab5cc6de8cc08154c5741d0f39b02f7
  ${debian}/p/pcre2/libpcre2-dev_10.36-2+deb11u1_amd64.deb                  bd4bf9a13dc86c14b6ed8d822d5c8eb66b80418fe8a0484fe1cd6836a8381c49
  ${debian}/u/utf8proc/libutf8proc-dev_2.5.0-1_amd64.deb                    4f7a5d9c706cac7478921045ecddca1f4eb4ff3fd379600493332838482135e3
  ${debian}/o/openmpi/libopenmpi-dev_4.1.0-10_amd64.deb                     02aab50eb3360858592b1000378e4450f9a60c3c916399f277462ad55d98c03f
  ${debian}/o/openmpi/libopenmpi3_4.1.0-10_amd64.deb                        d483f4e85ab37e3e77df5cf3df06da9f3acbf19488da86e19ee45a6133e45c38
  ${debian}/o/ocl-icd/ocl-icd-libopencl1_2.2.14-2_amd64.deb                 fb5624009f0f8015eef1d28c4f88046abc72f093a4a508894f5c043b3e16bcef
  ${debian}/o/ocl-icd/ocl-icd-opencl-dev_2.2.14-2_amd64.deb                 206ac9e4e5765dc6d3ccb3d577d85d325457c285490d633db386b22e2e394cab
  ${debian}/k/khronos-opencl-headers/opencl-c-headers_3.0~2020.12.18-1_all.deb 5e4dfec5d88a11cd84c7ecfa7176ebace0114fdbb3119e016f2e96da6e665253)

if(NOT EXISTS ${CHARL_SYSROOT}/complete)
  if(NOT CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL "x86_64")
    message(FATAL_ERROR "the packages are those for x86_64, and this is ${CMAKE_HOST_SYSTEM_PROCESSOR}; with "
      "-DCMAKE_TOOLCHAIN_FILE= the tarball is made for the C library of this system and later ones")
  endif()
  while(packages)
    list(POP_FRONT packages path hash)
    cmake_path(GET path FILENAME name)
    string(REGEX MATCH "^(ubuntu|debian)" distribution ${path})
    message(STATUS "${distribution}: ${name}")
    foreach(host ${${distribution}_hosts})
      file(DOWNLOAD ${host}/${path} ${CHARL_SYSROOT}/${name} STATUS result INACTIVITY_TIMEOUT 30)
      list(GET result 0 failed)
      if(NOT failed)
        break()
      endif()
    endforeach()
    if(failed)
      message(FATAL_ERROR "${host}/${path} cannot be downloaded: ${result}")
    endif()
    file(SHA256 ${CHARL_SYSROOT}/${name} got)
    if(NOT got STREQUAL hash)
      message(FATAL_ERROR "${CHARL_SYSROOT}/${name} has the SHA-256 ${got}, expected ${hash}")
    endif()
    file(ARCHIVE_EXTRACT INPUT ${CHARL_SYSROOT}/${name} DESTINATION ${CHARL_SYSROOT})
    file(GLOB data ${CHARL_SYSROOT}/data.tar.*)
    file(ARCHIVE_EXTRACT INPUT ${data} DESTINATION ${CHARL_SYSROOT})
    file(GLOB parts ${CHARL_SYSROOT}/*.tar.* ${CHARL_SYSROOT}/*.deb ${CHARL_SYSROOT}/debian-binary)
    file(REMOVE ${parts})
  endwhile()
  # Links with absolute paths would leave the folder.
  file(GLOB_RECURSE files ${CHARL_SYSROOT}/lib64/* ${CHARL_SYSROOT}/usr/lib/*)
  foreach(file ${files})
    if(IS_SYMLINK ${file})
      file(READ_SYMLINK ${file} target)
      if(IS_ABSOLUTE ${target})
        cmake_path(GET file PARENT_PATH folder)
        file(RELATIVE_PATH target ${folder} ${CHARL_SYSROOT}${target})
        file(CREATE_LINK ${target} ${file} SYMBOLIC)
      endif()
    endif()
  endforeach()
  file(TOUCH ${CHARL_SYSROOT}/complete)
endif()

set(libraries ${CHARL_SYSROOT}/usr/lib/x86_64-linux-gnu)
set(CMAKE_SYSROOT ${CHARL_SYSROOT})
set(CMAKE_EXE_LINKER_FLAGS_INIT -B${libraries}) # a compiler of Debian and Ubuntu looks into the system's folder before the sysroot
set(CMAKE_SHARED_LINKER_FLAGS_INIT -B${libraries})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CHARL_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${libraries}/pkgconfig:${CHARL_SYSROOT}/usr/share/pkgconfig)
# What mpicc of this system says is true of its own library only. charl is not linked with MPI, so what MPI itself needs is not here.
set(MPI_C_INCLUDE_PATH ${libraries}/openmpi/include)
set(MPI_C_LIB_NAMES mpi)
set(MPI_mpi_LIBRARY ${libraries}/libmpi.so.40)
set(MPI_C_WORKS YES)
set(MPI_C_VERSION 3.1)
