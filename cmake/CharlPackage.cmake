# cpack -G DEB: the packages charl, libcharl0.1 and libcharl-dev, by Debian's rules as far as lintian checks them. The preset `package` has the
# prefix /usr, which they are for. With CHARL_PORTABLE (the preset `tarball`): one archive that runs wherever it is unpacked.
# The person who builds the packages is their maintainer, named as for Debian's own tools: DEBFULLNAME and DEBEMAIL.
set(maintainer "charl maintainers <maintainers@charl.invalid>")
if(NOT "$ENV{DEBEMAIL}" STREQUAL "")
  set(maintainer "$ENV{DEBFULLNAME}")
  if(maintainer STREQUAL "")
    set(maintainer "charl maintainers")
  endif()
  string(APPEND maintainer " <$ENV{DEBEMAIL}>")
endif()
set(CHARL_MAINTAINER "${maintainer}" CACHE STRING "who is named in Debian packages")
set(library_package libcharl${CHARL_SOVERSION})

set(CPACK_PACKAGE_NAME charl)
set(CPACK_PACKAGE_VENDOR charl)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
if(CHARL_PORTABLE)
  set(CPACK_GENERATOR TGZ)
  string(TOLOWER charl-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR} CPACK_PACKAGE_FILE_NAME)
  if(CHARL_GLIBC)
    set(CPACK_CHARL_GLIBC ${CHARL_GLIBC})
    set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/check_glibc.cmake)
  endif()
  include(CPack)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL programs library development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${CHARL_MAINTAINER}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/src) # the programs need the library of this build
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME charl)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS "${library_package} (= ${PROJECT_VERSION}-1)")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS "openmpi-bin, pocl-opencl-icd | opencl-icd")
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION
"trainer of neural networks on OpenCL devices
charl-train trains the model of a configuration file on any OpenCL device,
data-parallel on many with MPI. The result has the same bits on any number
of ranks, and a run resumes from its checkpoints.

charl imports data, inspects and exports checkpoints, and runs trained
models. charl-bench measures the machine.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library_package})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS openmpi-bin) # opened at run time
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/debian/triggers CONTENT "activate-noawait ldconfig\n")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/debian/shlibs
  CONTENT "libcharl ${CHARL_SOVERSION} ${library_package} (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers ${PROJECT_BINARY_DIR}/debian/shlibs)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION
"neural networks on OpenCL devices (shared library)
libcharl trains and runs neural networks on any OpenCL device,
data-parallel on many with MPI.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libcharl-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library_package} (= ${PROJECT_VERSION}-1), libc6-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
"neural networks on OpenCL devices (development files)
Headers of libcharl for C and C++, and what find_package of CMake and
pkg-config need.")

# What Debian wants in /usr/share/doc/PACKAGE.
if(GZIP)
  set(doc ${PROJECT_BINARY_DIR}/debian)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/debian/copyright.in ${doc}/copyright @ONLY)
  if(DEFINED ENV{SOURCE_DATE_EPOCH})
    string(TIMESTAMP CHARL_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC) # of that time
  else()
    string(TIMESTAMP CHARL_DATE "%a, %d %b %Y 00:00:00 +0000" UTC)
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/debian/changelog.in ${doc}/changelog.Debian @ONLY)
  execute_process(COMMAND ${GZIP} -9nf ${doc}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
  foreach(component_package "programs;charl" "library;${library_package}" "development;libcharl-dev")
    list(POP_FRONT component_package component)
    install(FILES ${doc}/copyright ${doc}/changelog.Debian.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${component_package}
      COMPONENT ${component} EXCLUDE_FROM_ALL) # in packages only
  endforeach()
endif()
include(CPack)
