"""The library for Conan 2: conan create packaging/conan, with the sources around it. -o "&:vulkan=True" builds the Vulkan backend with the
system's headers, volk and glslang; the loader itself is opened at run time."""

import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rm, rmdir
from conan.tools.system.package_manager import Apt

PARTS = ("CMakeLists.txt", "LICENSE", "backend_cpu", "backend_cuda", "backend_vulkan", "cmake", "core", "include", "shaders")


class RaggedVit(ConanFile):
    name = "raggedvit"
    description = "Token-pruned Vision Transformers on ragged batches"
    license = "Apache-2.0"
    topics = ("attention", "deep-learning", "token-pruning", "vision-transformer")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False], "vulkan": [True, False]}
    default_options = {"shared": False, "fPIC": True, "vulkan": False}
    implements = ["auto_shared_fpic"]
    languages = "C"

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        self.version = re.search(r"project\(raggedvit VERSION ([0-9.]+)", load(self, os.path.join(self._root, "CMakeLists.txt")))[1]

    def export_sources(self):
        for part in PARTS:
            copy(self, f"{part}/*" if os.path.isdir(os.path.join(self._root, part)) else part, self._root, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def system_requirements(self):
        if self.options.vulkan:
            Apt(self).install(["glslang-tools", "libvulkan-dev", "libvulkan-volk-dev"])

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("CBLAS", "CUDA", "TESTS", "TOOLS", "BENCH", "EXAMPLES", "PYTHON", "TRITON"):
            toolchain.cache_variables[f"RVIT_{part}"] = "OFF"
        toolchain.cache_variables["RVIT_VULKAN"] = "ON" if self.options.vulkan else "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        libraries = os.path.join(self.package_folder, "lib")
        for pattern in ["*.a"] if self.options.shared else ["*.so*", "*.dylib", "*.dll.a"]:
            rm(self, pattern, libraries)
        if not self.options.shared:
            rm(self, "*.dll", os.path.join(self.package_folder, "bin"))
        for folder in ("lib/cmake", "lib/pkgconfig", "share"):  # Conan writes its own
            rmdir(self, os.path.join(self.package_folder, folder))

    def package_info(self):
        self.cpp_info.libs = ["raggedvit"]
        self.cpp_info.set_property("cmake_target_name", "raggedvit::raggedvit")
        self.cpp_info.set_property("pkg_config_name", "raggedvit")
        if self.settings.os in ("Linux", "FreeBSD") and not self.options.shared:
            self.cpp_info.system_libs = ["m", "pthread", "dl"]
