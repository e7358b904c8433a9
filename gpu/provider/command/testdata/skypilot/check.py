"""Checks that the real package takes every argument that the imitation takes, and has its exceptions."""
import importlib.util
import inspect
import pathlib

import sky

path = pathlib.Path(__file__).parent.parent / "imitations/sky/__init__.py"
spec = importlib.util.spec_from_file_location("imitation", path)
imitation = importlib.util.module_from_spec(spec)
spec.loader.exec_module(imitation)
for name, function in [("launch", imitation.launch), ("down", imitation.down), ("status", imitation.status), ("get", imitation.get),
                       ("api_status", imitation.api_status), ("Task", imitation.Task.__init__), ("Resources", imitation.Resources.__init__)]:
    real = getattr(sky, name)
    real = inspect.signature(real.__init__ if inspect.isclass(real) else real).parameters
    for parameter in inspect.signature(function).parameters.values():
        assert parameter.name in real, f"sky.{name} has no parameter {parameter.name}"
        positional = (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        assert parameter.kind not in positional or real[parameter.name].kind in positional, f"sky.{name}: {parameter.name}"
for name in ("ResourcesUnavailableError", "NoCloudAccessError", "ClusterDoesNotExist", "ApiServerAuthenticationError", "PermissionDeniedError",
             "InvalidCloudCredentials", "CloudUserIdentityError", "NotSupportedError", "InvalidClusterNameError", "ResourcesMismatchError"):
    assert issubclass(getattr(sky.exceptions, name), Exception), name
assert {s.name for s in sky.ClusterStatus} == {"INIT", "UP", "STOPPED", "AUTOSTOPPING", "PENDING"}
