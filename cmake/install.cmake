# Rules for cmake --install, in three components (library, development, tool), and files with which find_package and pkg-config can use the
# build tree: set raggedvit_DIR or PKG_CONFIG_PATH to the build folder.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/raggedvit)

# Installed files are linked with their final run paths. To change a run path at install time, CMake would reserve room with empty entries,
# which the dynamic linker treats as the current folder.
set_target_properties(raggedvit PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
# macOS: its name does not contain the folder either.
set_target_properties(raggedvit PROPERTIES BUILD_WITH_INSTALL_NAME_DIR ON INSTALL_NAME_DIR @rpath)
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set_target_properties(raggedvit PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
endif()
install(TARGETS raggedvit EXPORT raggedvit-shared
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT library # Windows: the DLL, and below its import library
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(TARGETS raggedvit_static raggedvit_dependencies EXPORT raggedvit-static
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
set_target_properties(raggedvit_dependencies PROPERTIES EXPORT_NAME static_dependencies)
install(DIRECTORY include/raggedvit DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN *.h)
target_include_directories(raggedvit INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_include_directories(raggedvit_static INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT library)
if(TARGET raggedvit_cli)
  # The tool, linked again with the run path for the prefix.
  add_executable(raggedvit_cli_installed $<TARGET_OBJECTS:raggedvit_cli>)
  target_link_libraries(raggedvit_cli_installed PRIVATE $<TARGET_PROPERTY:raggedvit_cli,LINK_LIBRARIES>)
  set_target_properties(raggedvit_cli_installed PROPERTIES
    OUTPUT_NAME raggedvit RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tools/installed BUILD_WITH_INSTALL_RPATH ON)
  # Relative, so that a prefix can be moved; /usr needs none.
  if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(origin $ORIGIN)
    if(APPLE)
      set(origin @loader_path)
    endif()
    file(RELATIVE_PATH library_from_tool ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(raggedvit_cli_installed PROPERTIES INSTALL_RPATH ${origin}/${library_from_tool})
  endif()
  install(TARGETS raggedvit_cli_installed RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tool)
  if(NOT CMAKE_CROSSCOMPILING)
    install(FILES ${PROJECT_BINARY_DIR}/tools/raggedvit.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tool)
  endif()
endif()

get_property(RVIT_STATIC_MODULES GLOBAL PROPERTY RVIT_STATIC_MODULES)
configure_package_config_file(cmake/raggedvit-config.cmake.in ${PROJECT_BINARY_DIR}/raggedvit-config.cmake
  INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0, minor versions may be incompatible.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/raggedvit-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/raggedvit-config.cmake ${PROJECT_BINARY_DIR}/raggedvit-config-version.cmake
  DESTINATION ${package_folder} COMPONENT development)
foreach(kind shared static)
  install(EXPORT raggedvit-${kind} FILE raggedvit-${kind}-targets.cmake NAMESPACE raggedvit:: DESTINATION ${package_folder}
    COMPONENT development)
  export(EXPORT raggedvit-${kind} FILE ${PROJECT_BINARY_DIR}/raggedvit-${kind}-targets.cmake NAMESPACE raggedvit::)
endforeach()

set(pc_requires ${RVIT_STATIC_MODULES})
list(TRANSFORM pc_requires REPLACE ".*=" "")
list(JOIN pc_requires " " pc_requires)
set(pc_libs_private "-pthread -lm -ldl")
if(WIN32)
  set(pc_libs_private "")
endif()
if(RVIT_HAVE_EXCLUDE_LIBS)
  string(APPEND pc_libs_private " -Wl,--exclude-libs,libraggedvit.a")
endif()
# Spaces in paths are escaped here; pkg-config itself escapes those in pcfiledir.
string(REPLACE " " "\\ " pc_prefix ${PROJECT_SOURCE_DIR})
string(REPLACE " " "\\ " pc_libdir ${PROJECT_BINARY_DIR})
set(pc_includedir ${pc_prefix}/include)
configure_file(cmake/raggedvit.pc.in raggedvit-uninstalled.pc @ONLY)
# Relative to the file, so that it stays right with --prefix at install time and after the prefix is moved. Absolute folders stay absolute.
string(REPLACE " " "\\ " pc_prefix ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  file(RELATIVE_PATH prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
  set(pc_prefix \${pcfiledir}/${prefix_from_pc})
endif()
foreach(folder libdir includedir)
  string(TOUPPER CMAKE_INSTALL_${folder} installed)
  string(REPLACE " " "\\ " pc_${folder} ${${installed}})
  if(NOT IS_ABSOLUTE ${pc_${folder}})
    set(pc_${folder} \${prefix}/${pc_${folder}})
  endif()
endforeach()
configure_file(cmake/raggedvit.pc.in raggedvit.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/raggedvit.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
