# Completes the folder of the backend MODULE: the link by which the server finds the custom batching functions, and copies of the libraries
# that a machine or a container may lack. Those of glibc and of the compiler are everywhere where the server is.
get_filename_component(folder ${MODULE} DIRECTORY)
get_filename_component(name ${MODULE} NAME)
# Copies of an earlier build would be found beside those of the system.
file(GLOB copies ${folder}/lib*.so*)
list(REMOVE_ITEM copies ${MODULE})
if(copies)
  file(REMOVE ${copies})
endif()
file(CREATE_LINK ${name} ${folder}/batchstrategy.so SYMBOLIC)
file(GET_RUNTIME_DEPENDENCIES RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing LIBRARIES ${MODULE}
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|gcc_s|asan|ubsan|tsan|stdc\\+\\+)\\.so")
if(missing)
  message(FATAL_ERROR "${name} needs ${missing}, which are not found")
endif()
foreach(library ${found})
  get_filename_component(soname ${library} NAME)
  if(NOT library STREQUAL ${folder}/${soname})
    file(REAL_PATH ${library} real)
    file(COPY_FILE ${real} ${folder}/${soname} ONLY_IF_DIFFERENT)
  endif()
endforeach()
