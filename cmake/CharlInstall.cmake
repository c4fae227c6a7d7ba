# cmake --install: programs, libraries, headers, and what find_package and pkg-config need to find them. The components are the packages that
# CharlPackage.cmake makes: programs, and of each library LIBRARY and LIBRARY_development.
include(CMakePackageConfigHelpers)

# The programs find the library beside them, wherever the prefix is moved to.
file(RELATIVE_PATH CHARL_BIN_TO_LIB /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
set(programs charl charl-train)
if(TARGET charl-bench)
  list(APPEND programs charl-bench)
endif()
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr") # there the loader looks by itself
  set_target_properties(${programs} PROPERTIES INSTALL_RPATH "$ORIGIN/${CHARL_BIN_TO_LIB}")
  set(beside "$ORIGIN")
endif()
set(helpers ${CMAKE_INSTALL_LIBDIR}/charl-${CHARL_SOVERSION})
file(RELATIVE_PATH CHARL_HELPER_TO_LIB /prefix/${helpers} /prefix/${CMAKE_INSTALL_LIBDIR})
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set_target_properties(charl-compile PROPERTIES INSTALL_RPATH "$ORIGIN/${CHARL_HELPER_TO_LIB}")
endif()
if(CHARL_PORTABLE)
  install(TARGETS charl-compile RUNTIME DESTINATION ${helpers} COMPONENT programs)
  set_target_properties(charl_charl_shared PROPERTIES INSTALL_RPATH "$ORIGIN") # libOpenCL.so.1
  install(TARGETS charl_charl_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT programs NAMELINK_SKIP)
else()
  install(TARGETS charl-compile RUNTIME DESTINATION ${helpers} COMPONENT charl)
endif()
install(TARGETS ${programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/launch/ DESTINATION ${CMAKE_INSTALL_DATADIR}/charl/launch COMPONENT programs USE_SOURCE_PERMISSIONS
  FILES_MATCHING PATTERN "*.ini" PATTERN "*.sbatch" PATTERN "*.yaml" PATTERN "run-local.sh" PATTERN "hostfile.example")

# Manual pages, which the programs write themselves, and the completion of the shells.
if(NOT CMAKE_CROSSCOMPILING)
  find_program(GZIP gzip REQUIRED)
  set(man_pages)
  foreach(page charl:1:--man charl-train:1:--man charl-bench:1:--man charl-config:5:--man=config)
    string(REPLACE ":" ";" page ${page})
    list(GET page 0 name)
    list(GET page 1 section)
    list(GET page 2 option)
    set(program ${name})
    if(name STREQUAL "charl-config")
      set(program charl-train)
    endif()
    if(NOT TARGET ${program})
      continue()
    endif()
    set(out ${PROJECT_BINARY_DIR}/man/${name}.${section})
    add_custom_command(OUTPUT ${out}.gz
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man
      COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 --unset=CHARL_FAULT $<TARGET_FILE:${program}> ${option} > ${out}
      COMMAND ${GZIP} -9nkf ${out}
      DEPENDS ${program} VERBATIM)
    list(APPEND man_pages ${out}.gz)
    install(FILES ${out}.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT programs)
  endforeach()
  add_custom_target(man ALL DEPENDS ${man_pages})
endif()
set(completion ${PROJECT_SOURCE_DIR}/src/cli/charl/completion)
set(zsh_folder site-functions)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr") # where Debian's zsh looks for those of packages
  set(zsh_folder vendor-completions)
endif()
install(FILES ${completion}/_charl DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${zsh_folder} COMPONENT programs)
foreach(program ${programs}) # bash and fish look for the name of the program
  install(FILES ${completion}/charl.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ${program}
    COMPONENT programs)
  install(FILES ${completion}/charl.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME ${program}.fish
    COMPONENT programs)
endforeach()

# Documents and examples.
set(doc ${CMAKE_INSTALL_DATADIR}/doc/charl)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${doc} COMPONENT programs)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${doc} COMPONENT programs PATTERN site EXCLUDE)
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr") # packages have Debian's file `copyright`
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${doc} COMPONENT programs)
endif()
if(NOT CHARL_PORTABLE)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${doc} COMPONENT charl_development)
endif()

if(CHARL_PORTABLE)
  # OpenCL's loader finds the drivers of the machine; LD_LIBRARY_PATH puts another before it.
  file(REAL_PATH ${OpenCL_LIBRARY} loader)
  install(FILES ${loader} DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME libOpenCL.so.1 COMPONENT programs)
  foreach(package ocl-icd-libopencl1 libhdf5-dev libaec-dev zlib1g-dev libpng-dev libjpeg62-turbo-dev libjpeg-turbo8-dev libjansson-dev libpcre2-dev libutf8proc-dev)
    if(EXISTS ${CMAKE_SYSROOT}/usr/share/doc/${package}/copyright) # Debian's and Ubuntu's
      install(FILES ${CMAKE_SYSROOT}/usr/share/doc/${package}/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/charl/licenses RENAME ${package} COMPONENT programs)
    endif()
  endforeach()
  return()
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/charl)
file(RELATIVE_PATH CHARL_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
set(CHARL_DESCRIPTION_OF_charl "${PROJECT_DESCRIPTION}")
set(CHARL_DESCRIPTION_OF_train "Trains and runs what the configuration files of charl describe")
set(CHARL_DESCRIPTION_OF_report "Pages and tables of trainings with charl")
foreach(library IN LISTS CHARL_LIBRARIES)
  charl_library_name(${library} CHARL_PC_NAME)
  set(CHARL_PC_DESCRIPTION ${CHARL_DESCRIPTION_OF_${library}})
  set(CHARL_PC_REQUIRES)
  foreach(need IN LISTS CHARL_NEEDS_OF_${library})
    charl_library_name(${need} name)
    list(APPEND CHARL_PC_REQUIRES "${name} = ${PROJECT_VERSION}")
  endforeach()
  list(JOIN CHARL_PC_REQUIRES ", " CHARL_PC_REQUIRES)
  set_target_properties(charl_${library}_shared PROPERTIES INSTALL_RPATH "${beside}")
  install(TARGETS charl_${library}_shared EXPORT ${CHARL_PC_NAME}Targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${library} NAMELINK_COMPONENT ${library}_development)
  install(EXPORT ${CHARL_PC_NAME}Targets NAMESPACE charl:: DESTINATION ${package} COMPONENT ${library}_development)
  foreach(header IN LISTS CHARL_HEADERS_OF_${library})
    set(folder ${PROJECT_SOURCE_DIR})
    if(header STREQUAL version)
      set(folder ${PROJECT_BINARY_DIR})
    endif()
    install(FILES ${folder}/include/charl/${header}.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/charl COMPONENT ${library}_development)
  endforeach()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/charl.pc.in ${PROJECT_BINARY_DIR}/cmake/${CHARL_PC_NAME}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/cmake/${CHARL_PC_NAME}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${library}_development)
endforeach()

# Components of find_package(charl COMPONENTS ...): what this build could find.
set(CHARL_COMPONENTS)
foreach(component_needs "png PNG" "jpeg JPEG" "bpe PCRE2" "nfc UTF8PROC")
  separate_arguments(component_needs)
  list(POP_FRONT component_needs component)
  if(${component_needs}_FOUND)
    list(APPEND CHARL_COMPONENTS ${component})
  endif()
endforeach()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/charlConfig.cmake.in ${PROJECT_BINARY_DIR}/cmake/charlConfig.cmake
  INSTALL_DESTINATION ${package} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/charlConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/charlConfig.cmake ${PROJECT_BINARY_DIR}/cmake/charlConfigVersion.cmake DESTINATION ${package} COMPONENT charl_development)
