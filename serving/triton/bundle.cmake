# Completes the folder of the backend MODULE: adds the link by which the server finds the custom batching functions, and copies of libraries
# that a machine or container may lack. Libraries of glibc and the compiler exist wherever the server runs.
get_filename_component(folder ${MODULE} DIRECTORY)
get_filename_component(name ${MODULE} NAME)
# Remove the copies of an earlier build, which would be found before those of the system.
file(GLOB copies ${folder}/lib*.so*)
list(REMOVE_ITEM copies ${MODULE})
if(copies)
  file(REMOVE ${copies})
endif()
file(CREATE_LINK ${name} ${folder}/batchstrategy.so SYMBOLIC)
file(GET_RUNTIME_DEPENDENCIES RESOLVED_DEPENDENCIES_VAR found UNRESOLVED_DEPENDENCIES_VAR missing LIBRARIES ${MODULE}
  PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread|gcc_s|asan|ubsan|tsan|stdc\\+\\+)\\.so")
if(missing)
  message(FATAL_ERROR "${name} needs ${missing}, which were not found")
endif()
foreach(library ${found})
  get_filename_component(soname ${library} NAME)
  if(NOT library STREQUAL ${folder}/${soname})
    file(REAL_PATH ${library} real)
    file(COPY_FILE ${real} ${folder}/${soname} ONLY_IF_DIFFERENT)
  endif()
endforeach()
