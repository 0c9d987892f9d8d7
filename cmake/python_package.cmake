# The component `python`: the files of the Python package that are not modules. The build of a wheel (pyproject.toml) installs it; it is
# installed only with --component python.
# The name is the soname's (python/raggedvit/_c/library.py: NAMES).
set(name libraggedvit.so.${RVIT_SOVERSION})
if(WIN32)
  set(name raggedvit.dll)
elseif(APPLE)
  set(name libraggedvit.${RVIT_SOVERSION}.dylib)
endif()
install(PROGRAMS $<TARGET_FILE:raggedvit> DESTINATION raggedvit RENAME ${name}
  COMPONENT python EXCLUDE_FROM_ALL)
if(TARGET raggedvit_python_core)
  install(TARGETS raggedvit_python_core LIBRARY DESTINATION raggedvit COMPONENT python EXCLUDE_FROM_ALL)
endif()
if(SKBUILD)
  target_link_options(raggedvit PRIVATE -s) # install(PROGRAMS) does not strip, and for another system nothing here can
  if(TARGET raggedvit_python_core)
    target_link_options(raggedvit_python_core PRIVATE -s)
  endif()
endif()
