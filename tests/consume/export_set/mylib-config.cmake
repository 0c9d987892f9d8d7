include(CMakeFindDependencyMacro)
find_dependency(raggedvit COMPONENTS static)
include(${CMAKE_CURRENT_LIST_DIR}/mylib-targets.cmake)
