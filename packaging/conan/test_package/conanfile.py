"""Classifies the photo of examples/data with the packaged library."""

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples")


class Test(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure(variables={"EXAMPLES": EXAMPLES})
        cmake.build()

    def test(self):
        if can_run(self):
            data = os.path.join(EXAMPLES, "data")
            program = os.path.join(self.cpp.build.bindir, "classify")
            self.run(f'"{program}" "{data}/deit_tiny_cifar10.safetensors" "{data}/chelsea.png" 3', env="conanrun")
