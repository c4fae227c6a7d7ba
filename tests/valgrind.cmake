# Tests that open no device, once more under valgrind: label valgrind. Not with sanitizers, which it cannot run.
find_program(VALGRIND valgrind)
if(NOT CHARL_SANITIZE)
  file(GLOB programs CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} base/test_*.c tensor/test_shape.c optim/test_schedule.c io/test_*.c
    config/test_config.c config/test_config_messages.c config/test_config_run.c
    infer/test_prediction_writer.c train/test_metrics.c train/test_rundir.c)
  # These only repeat the same code over much data.
  list(FILTER programs EXCLUDE REGEX "test_(numeric|order|checkpoint_average|checkpoint_damage|checkpoint_power)[a-z_]*\\.c$")
  foreach(program IN LISTS programs)
    string(REGEX REPLACE "^(.*)/test_(.*)\\.c$" "\\2" name ${program})
    if(VALGRIND)
      add_test(NAME valgrind/${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
        COMMAND ${VALGRIND} --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite
          --suppressions=${CMAKE_CURRENT_SOURCE_DIR}/support/valgrind.supp $<TARGET_FILE:test_${name}>)
    else()
      add_test(NAME valgrind/${name} COMMAND sh -c "echo 'skipped: no valgrind'; exit 77")
    endif()
    charl_test_properties(valgrind/${name} valgrind 900)
    set_property(TEST valgrind/${name} APPEND PROPERTY ENVIRONMENT CHARL_TEST_SHORT=1)
  endforeach()
endif()
