"""The one place from which this package imports torch.

torchvision from the package registry is built for CUDA. Beside a CPU-only
torch its compiled extension does not load, and ``import torchvision`` then
fails while it registers shapes for two operators that the extension would have
declared (``torchvision::nms`` and ``torchvision::qnms``). Nobody here uses
them, but torchmetrics and laplace-torch import torchvision and fail with it.

Declaring the two schemas mends that, but only where the extension is missing:
where it loads, it declares them itself, and a second declaration aborts the
interpreter. So the extension is tried first, exactly as torchvision would.

Use ``from uqhelpers._torch import torch`` instead of ``import torch``.
"""

import importlib.machinery
import importlib.util
from pathlib import Path

import torch

__all__ = ["as_module", "declare_missing_operators", "torch"]

SCHEMAS = {
    "torchvision::nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "torchvision::qnms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


def extension_loads(folder):
    """Whether torchvision's compiled extension in ``folder`` can be loaded here."""
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        library = Path(folder) / f"_C{suffix}"
        if library.exists():
            try:
                torch.ops.load_library(str(library))
            except OSError:
                return False
            return True
    return False


def declare_missing_operators():
    """Declare torchvision's two operators if, and only if, its extension cannot.

    Returns
    -------
    bool
        Whether anything was declared.
    """
    spec = importlib.util.find_spec("torchvision")
    if spec is None or extension_loads(spec.submodule_search_locations[0]):
        return False
    for name, schema in SCHEMAS.items():
        namespace, operator = name.split("::")
        if not hasattr(getattr(torch.ops, namespace), operator):
            torch.library.define(name, schema)
    return True


def as_module(network, name="model"):
    """The argument itself, if it is a network of torch."""
    if not isinstance(network, torch.nn.Module):
        raise ValueError(f"{name}: expected a torch.nn.Module, got {type(network).__name__}")
    return network


declare_missing_operators()
