"""The one place from which this package first imports JAX.

That import draws from NumPy's global generator (JAX asks on the way whether it runs on a
cluster), which belongs to the caller: afterwards it stands where it stood.
"""

import numpy as np

__all__ = ["need_jax"]


def need_jax(what):
    """Import JAX, or say what cannot be done without it."""
    before = np.random.get_state()  # noqa: NPY002
    try:
        import jax  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == "jax":
            message = f"jax: {what} in JAX; `pip install jax` brings it"
            raise ModuleNotFoundError(message, name=error.name) from error
        raise
    finally:
        np.random.set_state(before)  # noqa: NPY002
