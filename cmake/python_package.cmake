# The component `python`: what the Python package holds beside its modules. The build of a wheel (pyproject.toml) installs it; without
# --component python nothing of it is installed.
install(PROGRAMS $<TARGET_FILE:raggedvit> DESTINATION raggedvit RENAME libraggedvit.so.${RVIT_SOVERSION}
  COMPONENT python EXCLUDE_FROM_ALL)
if(TARGET raggedvit_python_core)
  install(TARGETS raggedvit_python_core LIBRARY DESTINATION raggedvit COMPONENT python EXCLUDE_FROM_ALL)
endif()
if(SKBUILD)
  target_link_options(raggedvit PRIVATE -s) # a file that is not installed as a target is not stripped
endif()
