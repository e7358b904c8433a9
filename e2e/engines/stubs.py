"""Loads the HTTP layer of a Python engine from its unpacked wheel, with stubs for all that needs a GPU."""

import importlib.abc
import importlib.machinery
import sys
import types
from unittest.mock import MagicMock


class Stub(types.ModuleType):
    """A module that has every name: a class for CamelCase, a mock for the rest."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = MagicMock(name=name)
        if name[:1].isupper() and not name.isupper():
            value = type(name, (), {"__init__": lambda self, *_, **fields: self.__dict__.update(fields)})
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, packages, real):
        self.packages = packages
        self.real = real

    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in self.packages and name not in self.real:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        pass


def install(source, packages, real):
    """Makes every import below packages a stub, except the modules in real, which are read from source.

    The packages that hold a real module are not run themselves: their __init__ imports the engine.
    """
    for name in real:
        parts = name.split(".")
        for depth in range(1, len(parts)):
            package = types.ModuleType(".".join(parts[:depth]))
            package.__path__ = [str(source.joinpath(*parts[:depth]))]
            if package.__name__ in sys.modules:
                continue
            sys.modules[package.__name__] = package
            if depth > 1:
                setattr(sys.modules[".".join(parts[: depth - 1])], parts[depth - 1], package)
    sys.meta_path.insert(0, Finder(packages, real))
