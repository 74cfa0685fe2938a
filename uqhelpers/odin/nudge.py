"""ODIN: a softmax softened by a temperature, after a step of the input towards the prediction."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_choice, as_number, as_real, as_whole, to_numpy
from uqhelpers._torch import torch
from uqhelpers.batches import is_loader
from uqhelpers.metrics import auroc, fpr95
from uqhelpers.odin.logits import softmax_score
from uqhelpers.training import are_probabilities, as_inputs, evaluating

nn = torch.nn

__all__ = ["Tuning", "odin_score", "perturb", "tune"]


def odin_score(model, inputs, temperature=1000.0, epsilon=0.0014, std=None, batch_size=100):
    """ODIN: minus the largest softmax probability at a temperature, after a step towards the prediction.

    The input moves by ``epsilon`` a pixel, in the direction that lowers the
    cross-entropy of the predicted class at that temperature. Familiar inputs
    gain more probability by it than strange ones do; that, at least, is the
    hope. The softmax is computed in float64: at a temperature of 1000 the
    probabilities of ten classes lie within a few thousandths of 1/10, and at
    a million single precision ties most of them.

    Parameters
    ----------
    model : torch.nn.Module
        A classifier that puts out logits; left in the state in which it came,
        with no gradient on its parameters.
    inputs : array, shape (N, ...), or iterable of batches
        Inputs, real numbers; or a ``DataLoader`` that keeps their order.
    temperature : float
        Above 0.
    epsilon : float
        Size of the step, at least 0, in the units of the inputs: of pixels in
        [0, 1] for networks that standardise inside themselves, as those of
        ``uqhelpers.models`` do. As published, the moved input is not clipped
        to the range of the pixels.
    std : float or array, shape (channels,), optional
        By which the inputs were divided before they came here. ``epsilon`` then
        counts in the units from before, and the step is divided by ``std``.
    batch_size : int, inputs at a time

    Returns
    -------
    array, shape (N,), float64
        From -1 (familiar) to -1/C. With ``temperature=1, epsilon=0`` exactly the
        score of the largest probability.

    Raises
    ------
    ValueError
        If the inputs are whole numbers.

    References
    ----------
    Liang, Li and Srikant (2018), Enhancing the reliability of out-of-distribution
    image detection in neural networks, eqs. 1 and 2.
    """
    settings, inputs = _Settings.of(model, inputs, temperature, epsilon, std, batch_size)
    with evaluating(model):
        parts = [
            _logits(model, settings.moved(model, part, epsilon)) for part in settings.parts(model, inputs)
        ]
    return softmax_score(np.concatenate(parts), temperature)


def perturb(model, inputs, temperature=1000.0, epsilon=0.0014, std=None, batch_size=100):
    """The inputs as ODIN shows them to the network the second time.

    Parameters are those of :func:`odin_score`.

    Returns
    -------
    array, the inputs' shape, in the network's precision
        ``inputs - epsilon * sign(gradient) / std``. Where the gradient is
        exactly 0, nothing moves.
    """
    settings, inputs = _Settings.of(model, inputs, temperature, epsilon, std, batch_size)
    with evaluating(model):
        parts = [settings.moved(model, part, epsilon) for part in settings.parts(model, inputs)]
    return to_numpy(torch.cat(parts), "inputs")


@dataclass(frozen=True, eq=False)
class Tuning:
    """What ``tune`` chose, and all that it tried.

    Attributes
    ----------
    temperature, epsilon : float
        The best pair; of equals the one with the lowest temperature, then the
        smallest step.
    figures : array, shape (temperatures, epsilons)
        AUROC, or FPR95, of every pair, the proxy being positive.
    temperatures, epsilons : array
        What was tried, in ascending order.
    criterion : str
        ``"auroc"`` or ``"fpr95"``.
    """

    temperature: float
    epsilon: float
    figures: np.ndarray
    temperatures: np.ndarray
    epsilons: np.ndarray
    criterion: str


def tune(
    model,
    held_out_id,
    proxy_ood,
    temperatures=(1.0, 10.0, 100.0, 1000.0),
    epsilons=(0.0, 0.0014, 0.0028, 0.0056, 0.0112, 0.0224, 0.0448),
    std=None,
    criterion="auroc",
    batch_size=100,
):
    """ODIN's temperature and step, chosen on held-out data and a stand-in for the strange.

    Parameters
    ----------
    model : torch.nn.Module
        As in :func:`odin_score`.
    held_out_id : array, shape (N, ...)
        Inputs from the training distribution that the network was not trained on,
        and that no figure is reported on: the validation part.
    proxy_ood : array, shape (M, ...)
        Strange inputs that are *not* those whose figures are reported: another
        set, or the familiar ones with their pixels shuffled.
    temperatures, epsilons : sequence of float
        The grid.
    std : float or array, shape (channels,), optional
        As in :func:`odin_score`.
    criterion : {"auroc", "fpr95"}
        What is to be best. FPR95 with the proxy as the positive class.
    batch_size : int, inputs at a time

    Returns
    -------
    Tuning
        The best pair and the whole grid.

    Raises
    ------
    ValueError
        If the grid is empty, or both sets are the same inputs.
    """
    temperatures = np.unique([as_number(t, "temperatures", low=0, open_low=True) for t in temperatures])
    epsilons = np.unique([as_number(e, "epsilons", low=0) for e in epsilons])
    if not len(temperatures) or not len(epsilons):
        raise ValueError("temperatures, epsilons: expected at least one value each, got none")
    figure = {"auroc": auroc, "fpr95": fpr95}[as_choice(criterion, "criterion", ("auroc", "fpr95"))]
    sets = [
        _of_argument(name, held, model)
        for name, held in (("held_out_id", held_out_id), ("proxy_ood", proxy_ood))
    ]
    if sets[0].shape == sets[1].shape and np.array_equal(*sets):
        raise ValueError("proxy_ood: expected other inputs than held_out_id, got the same ones")
    scores = [_grid(model, held, temperatures, epsilons, std, batch_size) for held in sets]
    strange = np.repeat([False, True], [len(held) for held in sets])
    figures = np.array(
        [
            [figure(np.concatenate(pair), strange, "proxy OOD") for pair in zip(*rows, strict=True)]
            for rows in zip(*scores, strict=True)
        ],
        dtype=np.float64,
    )
    worse = -figures if criterion == "auroc" else figures
    row, column = np.unravel_index(worse.argmin(), worse.shape)
    return Tuning(
        float(temperatures[row]), float(epsilons[column]), figures, temperatures, epsilons, criterion
    )


def _grid(model, inputs, temperatures, epsilons, std, batch_size):
    """Scores of shape (temperatures, epsilons, N): one gradient a temperature, whatever the steps."""
    scores = np.empty((len(temperatures), len(epsilons), len(inputs)))
    for row, temperature in enumerate(temperatures):
        settings, _ = _Settings.of(model, inputs, temperature, epsilons.max(), std, batch_size)
        start = 0
        with evaluating(model):
            for part in settings.parts(model, inputs):
                direction = settings.direction(model, part) if epsilons.max() else None
                place = slice(start, start := start + len(part))
                for column, epsilon in enumerate(epsilons):
                    moved = part - epsilon * direction if epsilon else part
                    scores[row, column, place] = softmax_score(_logits(model, moved), temperature)
    return scores


def _of_argument(name, inputs, model):
    """A NumPy array of some inputs, named in the error if it is none."""
    if is_loader(inputs):
        return to_numpy(as_inputs(inputs, model), name)
    array = to_numpy(inputs, name)
    if array.ndim < 2 or array.size == 0:
        raise ValueError(f"{name}: expected at least one input, shape (inputs, ...), got shape {array.shape}")
    return array


@dataclass(frozen=True, eq=False)
class _Settings:
    """Checked settings of ODIN's step."""

    temperature: float
    std: object  # a tensor that divides (N, channels, ...), or None
    batch_size: int

    @classmethod
    def of(cls, model, inputs, temperature, epsilon, std, batch_size):
        if not isinstance(model, nn.Module) or next(model.parameters(), None) is None:
            raise ValueError(f"model: expected a torch.nn.Module with parameters, got {type(model).__name__}")
        temperature = as_number(temperature, "temperature", low=0, open_low=True)
        tensor = as_inputs(inputs, model)
        as_number(epsilon, "epsilon", low=0, high=torch.finfo(next(model.parameters()).dtype).max / 1000)
        if not tensor.is_floating_point() or tensor.ndim < 2:
            raise ValueError(
                "inputs: expected real numbers, shape (inputs, ...), that can be moved by a small step, "
                f"got {tensor.dtype} of shape {tuple(tensor.shape)}"
            )
        return cls(temperature, _as_std(std, tensor, model), as_whole(batch_size, "batch_size")), tensor

    def parts(self, model, inputs):
        """Batches on the network's device."""
        device = next(model.parameters()).device
        for part in as_inputs(inputs, model).split(self.batch_size):
            yield part.to(device)

    def direction(self, model, part):
        """The sign of the cross-entropy's gradient, divided by ``std``."""
        with torch.inference_mode(False), torch.enable_grad():
            # A tensor that was made in inference mode can have no gradient, its copy can.
            part = (part.clone() if part.is_inference() else part.detach()).requires_grad_()
            logits = _checked(model(part.clone()), len(part))  # its first layer may work in place
            if not logits.requires_grad:
                raise ValueError("model: expected outputs that depend on the inputs, got no gradient")
            winner = logits.argmax(dim=1, keepdim=True)
            others = torch.zeros_like(logits).scatter(1, winner, -torch.inf) + logits
            # The cross-entropy is softplus of this over T, so both rise and fall together. But the softmax
            # of a sure network rounds to 1, and its gradient to nothing; this one never does.
            # Still lower temperatures are 0 in single precision, and what counts is the second largest alone.
            temperature = max(self.temperature, 1e-30)
            behind = temperature * torch.logsumexp(others / temperature, dim=1)
            loss = behind - logits.gather(1, winner)[:, 0]
            (gradient,) = torch.autograd.grad(loss.sum(), part)
        sign = gradient.sign()
        return sign if self.std is None else sign / self.std.reshape(-1, *[1] * (sign.ndim - 2))

    def moved(self, model, part, epsilon):
        """One batch after the step."""
        return part - epsilon * self.direction(model, part) if epsilon else part


def _as_std(std, inputs, model):
    """A tensor with one positive entry, or one a channel."""
    if std is None:
        return None
    array = np.atleast_1d(as_real(std, "std"))
    channels = inputs.shape[1]
    if array.ndim != 1 or len(array) not in (1, channels) or array.min() <= 0:
        raise ValueError(
            f"std: expected a number above 0, or one for each of {channels} channels, got {array.tolist()}"
        )
    parameter = next(model.parameters())
    return torch.as_tensor(array, dtype=parameter.dtype, device=parameter.device)


def _logits(model, part):
    """Logits of one batch as float64 NumPy."""
    with torch.inference_mode():
        return _checked(model(part.clone()), len(part)).double().cpu().numpy()


def _checked(outputs, length):
    if not torch.is_tensor(outputs) or outputs.ndim != 2 or len(outputs) != length or outputs.shape[1] < 2:
        got = tuple(outputs.shape) if torch.is_tensor(outputs) else type(outputs).__name__
        raise ValueError(f"model: expected logits of shape ({length}, at least 2 classes), got {got}")
    seen = outputs.detach()
    if are_probabilities(seen):
        raise ValueError("model: expected logits, got rows that sum to 1: leave the softmax out")
    return outputs
