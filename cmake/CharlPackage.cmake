# cpack -G DEB: the package charl, and of each library LIBRARY0.1 and LIBRARY-dev (libcharl0.1, libcharl-train-dev, ...), by Debian's rules as far as lintian checks them. The preset `package` has the
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
set(CPACK_COMPONENTS_ALL programs)
foreach(library IN LISTS CHARL_LIBRARIES)
  list(APPEND CPACK_COMPONENTS_ALL ${library} ${library}_development)
endforeach()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${CHARL_MAINTAINER}")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/src) # what is packed needs the libraries of this build
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME charl)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(same "(= ${PROJECT_VERSION}-1)") # the libraries and the programs of a version belong together
foreach(library IN LISTS CHARL_LIBRARIES)
  charl_library_name(${library} name)
  set(package_of_${library} lib${name}${CHARL_SOVERSION})
  list(APPEND packages_needed "${package_of_${library}} ${same}")
endforeach()
list(JOIN packages_needed ", " CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS "openmpi-bin, pocl-opencl-icd | opencl-icd")
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION
"trainer of neural networks on OpenCL devices
charl-train trains the model of a configuration file on OpenCL devices,
data-parallel on many with MPI. The result has the same bits on any number
of ranks, and a run resumes from its checkpoints.

charl imports data, inspects and exports checkpoints, and runs trained
models. charl-bench measures the machine.")

set(CPACK_DEBIAN_CHARL_PACKAGE_RECOMMENDS openmpi-bin) # opened at run time
set(summary_of_charl "neural networks on OpenCL devices")
set(text_of_charl "libcharl trains and runs neural networks on OpenCL devices,
data-parallel on many with MPI.")
set(summary_of_train "trainings that a configuration describes")
set(text_of_train "libcharl-train imports data, trains what a configuration of charl
describes, and runs and exports the models.")
set(summary_of_report "pages and tables of trainings")
set(text_of_report "libcharl-report draws the curves of trainings with charl and compares
them.")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/debian/triggers CONTENT "activate-noawait ldconfig\n")
foreach(library IN LISTS CHARL_LIBRARIES)
  charl_library_name(${library} name)
  string(TOUPPER ${library} component)
  set(needed)
  set(needed_development "${package_of_${library}} ${same}")
  foreach(need IN LISTS CHARL_NEEDS_OF_${library})
    charl_library_name(${need} needed_name)
    list(APPEND needed "${package_of_${need}} ${same}")
    list(APPEND needed_development "lib${needed_name}-dev ${same}")
  endforeach()
  list(JOIN needed ", " CPACK_DEBIAN_${component}_PACKAGE_DEPENDS)
  list(JOIN needed_development ", " needed_development)
  set(CPACK_DEBIAN_${component}_PACKAGE_NAME ${package_of_${library}})
  set(CPACK_DEBIAN_${component}_PACKAGE_SECTION libs)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/debian/${library}/shlibs
    CONTENT "lib${name} ${CHARL_SOVERSION} ${package_of_${library}} (>= ${PROJECT_VERSION})\n")
  set(CPACK_DEBIAN_${component}_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/debian/triggers ${PROJECT_BINARY_DIR}/debian/${library}/shlibs)
  set(CPACK_COMPONENT_${component}_DESCRIPTION "${summary_of_${library}} (shared library)\n${text_of_${library}}")
  string(APPEND component _DEVELOPMENT)
  set(CPACK_DEBIAN_${component}_PACKAGE_NAME lib${name}-dev)
  set(CPACK_DEBIAN_${component}_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_${component}_PACKAGE_DEPENDS "${needed_development}, libc6-dev")
  set(CPACK_COMPONENT_${component}_DESCRIPTION "${summary_of_${library}} (development files)
Headers of lib${name} for C and C++, and what find_package of CMake and
pkg-config need.")
endforeach()

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
  set(components_packages programs:charl)
  foreach(library IN LISTS CHARL_LIBRARIES)
    charl_library_name(${library} name)
    list(APPEND components_packages ${library}:${package_of_${library}} ${library}_development:lib${name}-dev)
  endforeach()
  foreach(component_package IN LISTS components_packages)
    string(REPLACE ":" ";" component_package ${component_package})
    list(POP_FRONT component_package component)
    install(FILES ${doc}/copyright ${doc}/changelog.Debian.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${component_package}
      COMPONENT ${component} EXCLUDE_FROM_ALL) # in packages only
  endforeach()
endif()
include(CPack)
