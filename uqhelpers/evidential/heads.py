"""The ends of evidential networks, which see to it that what they put out are legal parameters."""

from uqhelpers._checks import as_choice
from uqhelpers._torch import torch

__all__ = ["ACTIVATIONS", "DirichletHead", "NormalInverseGammaHead"]

functional = torch.nn.functional


def _exponential(outputs):
    # Far from the data it would overflow; a straight line goes on where it stops, with a slope to learn by.
    return torch.exp(outputs.clamp(max=50)) * (1 + functional.relu(outputs - 50))


ACTIVATIONS = {"softplus": functional.softplus, "exp": _exponential, "relu": torch.relu}


class DirichletHead(torch.nn.Module):
    """Turns a network's outputs into concentrations: evidence that cannot be negative, plus 1.

    Parameters
    ----------
    activation : {"softplus", "exp", "relu"}
        How an output becomes evidence; that of ``"exp"`` goes on as a straight
        line above 5e21. ``"relu"`` is the original one; an input all of whose
        outputs are negative then has no gradient, and nothing is learned from
        it as long as they are. Steps for other inputs may revive it, for they
        share its weights.

    References
    ----------
    Sensoy, Kaplan and Kandemir (2018), section 3. Pandey and Yu (2023), Learn
    to accumulate evidence from all training samples, on the activations.
    """

    def __init__(self, activation="softplus"):
        super().__init__()
        self.activation = as_choice(activation, "activation", tuple(ACTIVATIONS))

    def forward(self, outputs):
        return ACTIVATIONS[self.activation](outputs) + 1

    def extra_repr(self):
        return f"activation={self.activation!r}"


class NormalInverseGammaHead(torch.nn.Module):
    """Turns four outputs into the parameters of a normal-inverse-gamma distribution.

    The columns that come out are γ (any number), ν > 0, α > 1 and β > 0: the
    variance is drawn from an inverse gamma with α and β, the mean from a normal
    around γ with that variance divided by ν.

    References
    ----------
    Amini et al. (2020), Deep evidential regression, section 3.
    """

    def forward(self, outputs):
        if outputs.shape[-1] != 4:
            raise ValueError(f"outputs: expected four an input, got shape {tuple(outputs.shape)}")
        gamma, raw = outputs[..., :1], functional.softplus(outputs[..., 1:])
        tiny = torch.finfo(raw.dtype).eps  # softplus can round to 0
        nu, alpha, beta = raw.split(1, dim=-1)
        return torch.cat([gamma, nu + tiny, alpha + 1 + tiny, beta + tiny], dim=-1)


def wide(tensor):
    """In double precision where there is one: differences of log gammas lose half of the digits."""
    return tensor if tensor.device.type == "mps" else tensor.double()


def expect_above(values, low, name, head):
    least, greatest = (end.item() for end in values.detach().aminmax())
    if not low < least <= greatest < float("inf"):  # false for NaN too
        found = least if not least > low else greatest
        raise ValueError(
            f"{name}: expected finite numbers above {low}, got {found:.4g}: does it end in a {head}?"
        )
