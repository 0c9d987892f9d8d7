# An overlay port of the sources around it: vcpkg install raggedvit --overlay-ports=packaging/vcpkg. Not tested.
set(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../..")
vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES vulkan RVIT_VULKAN)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${features} -DRVIT_CUDA=OFF -DRVIT_CBLAS=OFF -DRVIT_TESTS=OFF -DRVIT_TOOLS=OFF -DRVIT_BENCH=OFF -DRVIT_EXAMPLES=OFF
          -DRVIT_PYTHON=OFF -DRVIT_TRITON=OFF
          "-DRVIT_GLSLANG=${CURRENT_HOST_INSTALLED_DIR}/tools/glslang/glslang${VCPKG_HOST_EXECUTABLE_SUFFIX}")
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/raggedvit)
vcpkg_fixup_pkgconfig()
# One kind of library, as the triplet says; raggedvit-config.cmake works without the other's file of targets.
foreach(root "${CURRENT_PACKAGES_DIR}" "${CURRENT_PACKAGES_DIR}/debug")
  if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
    file(GLOB other "${root}/lib/*.so*" "${root}/lib/*.dylib" "${root}/lib/*.dll.a" "${root}/bin"
         "${root}/share/raggedvit/raggedvit-shared-*")
  else()
    file(GLOB other "${root}/lib/libraggedvit.a" "${root}/share/raggedvit/raggedvit-static-*")
  endif()
  file(REMOVE_RECURSE ${other})
endforeach()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share" "${CURRENT_PACKAGES_DIR}/share/doc")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
