# The component `python`: the files of the Python package that are not modules. The build of a wheel (pyproject.toml) installs it; it is
# installed only with --component python.
install(PROGRAMS $<TARGET_FILE:raggedvit> DESTINATION raggedvit RENAME libraggedvit.so.${RVIT_SOVERSION}
  COMPONENT python EXCLUDE_FROM_ALL)
if(TARGET raggedvit_python_core)
  install(TARGETS raggedvit_python_core LIBRARY DESTINATION raggedvit COMPONENT python EXCLUDE_FROM_ALL)
endif()
if(SKBUILD)
  target_link_options(raggedvit PRIVATE -s) # install(PROGRAMS) does not strip
endif()
