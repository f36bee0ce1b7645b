"""Copies libtempo into the wheel, where there is a build: that of TEMPO_HOME, or of the repository that this folder is
in. Without one the wheel is of Python alone and looks for libtempo where it is installed (tempo/library.py)."""
import glob
import os
import shutil

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = os.path.dirname(os.path.abspath(__file__))


def built():
    """libtempo of a build folder or an installation; None: there is none."""
    for home in filter(None, [os.environ.get("TEMPO_HOME"), os.path.join(HERE, "..", "build")]):
        libraries = [p for place in ("runtime", "lib", "lib/*") for p in
                     glob.glob(os.path.join(home, place, "libtempo.so.?"))]
        if libraries:
            return libraries[0]
    return None


class WithLibrary(build_py):
    def run(self):
        super().run()
        library = built()
        if library and not self.editable_mode:
            folder = os.path.join(self.build_lib, "tempo", "lib")
            os.makedirs(folder, exist_ok=True)
            shutil.copy(os.path.realpath(library), os.path.join(folder, os.path.basename(library)))


class OneForAllPythons(bdist_wheel):
    def get_tag(self):
        python, abi, platform = super().get_tag()
        return (python, abi, platform) if self.root_is_pure else ("py3", "none", platform)


class Machine(Distribution):
    def has_ext_modules(self):
        return built() is not None


setup(cmdclass={"build_py": WithLibrary, "bdist_wheel": OneForAllPythons}, distclass=Machine)
