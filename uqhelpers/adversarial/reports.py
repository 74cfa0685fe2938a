"""Was the attack any good? A check-list for masked gradients, to be read before any claim of robustness."""

import dataclasses

import numpy as np

from uqhelpers._checks import as_number, as_real, as_whole
from uqhelpers._torch import torch
from uqhelpers.adversarial.attacks import fgsm, pgd, random_search
from uqhelpers.adversarial.gains import average
from uqhelpers.adversarial.victims import as_problem, as_victim

EASY = 0.05  # accuracy that may be left when every image is in reach
SILENT = 0.05  # share of inputs that may have no gradient at all
FEWEST = 20  # inputs: of fewer, one alone is more than these shares


@dataclasses.dataclass(frozen=True)
class Check:
    """One question of the list.

    Attributes
    ----------
    name : str
        What should hold.
    passed : bool
        Whether it did.
    figures : dict of float
        What it was judged by: accuracies, and shares of inputs.
    """

    name: str
    passed: bool
    figures: dict


@dataclasses.dataclass(frozen=True)
class MaskedGradientReport:
    """All questions, and what they were answered.

    Attributes
    ----------
    checks : tuple of Check
    """

    checks: tuple

    @property
    def masked(self):
        """Whether any check failed: then the attack's failure says nothing about the model."""
        return not all(check.passed for check in self.checks)

    @property
    def failed(self):
        """The names of the checks that failed."""
        return [check.name for check in self.checks if not check.passed]

    def __str__(self):
        lines = []
        for check in self.checks:
            figures = ", ".join(f"{name} {value:.3f}" for name, value in check.figures.items())
            lines.append(f"{'passed' if check.passed else 'FAILED'}  {check.name}: {figures}")
        return "\n".join(lines)


def masked_gradient_report(
    model,
    inputs,
    labels,
    epsilon,
    *,
    steps=20,
    restarts=3,
    queries=200,
    surrogate=None,
    passes=None,
    seed=0,
    bounds=(0.0, 1.0),
    mean=0.0,
    std=1.0,
    tolerance=0.05,
    batch_size=100,
):
    """Ask whether a model resists attacks, or only hides the gradient that they follow.

    A model whose gradients are in order passes all questions, robust or not:

    - the plain cross-entropy has a gradient that is not 0 (on all but a few inputs);
    - the iterated attack is no weaker than the single step;
    - a larger budget leaves no higher accuracy;
    - with every image in reach (a budget of the whole range) nearly nothing is left;
    - another loss, which compares logits, is no stronger than the cross-entropy;
    - more restarts find hardly anything that one try does not;
    - an attack without gradients is no stronger than the one with them;
    - inputs made on another model (``surrogate``) are no stronger than those made on this one.

    It is a list of symptoms: who passes can still hide something.

    Parameters
    ----------
    model, labels, passes, seed, mean, std, batch_size : as in :func:`fgsm`
    inputs : array, shape (N, ...)
        At least 20, and better a hundred or more, as shares of them are judged.
    epsilon : float
        The budget a pixel at which robustness is claimed, above 0 and at most the
        whole range.
    steps, restarts : int
        Of the iterated attack; at least two restarts.
    queries : int
        Of the attack without gradients.
    surrogate : torch.nn.Module, optional
        Another model of the same task, whose gradients are plain.
    bounds : (float, float)
        Range of the pixels.
    tolerance : float
        By how much of the inputs a weaker attack may win before it counts.

    Returns
    -------
    MaskedGradientReport

    Raises
    ------
    ValueError
        If there are no bounds, fewer than two restarts or too few inputs.

    References
    ----------
    Athalye, Carlini and Wagner (2018), Obfuscated gradients give a false sense of
    security, section 3.1; Carlini et al. (2019), On evaluating adversarial
    robustness.
    """
    tolerance = as_number(tolerance, "tolerance", low=0, high=1)
    restarts = as_whole(restarts, "restarts", low=2)
    if bounds is None:
        raise ValueError(
            "bounds: expected (low, high), as one check gives the attack the whole range, got None"
        )
    span = float(np.ptp(as_real(bounds, "bounds")))
    epsilon = as_number(epsilon, "epsilon", low=0, high=span, open_low=True)
    shared = {"seed": seed, "bounds": bounds, "mean": mean, "std": std, "batch_size": batch_size}
    own = shared | {"passes": passes}
    victim = as_victim(model, passes, seed)
    tensor, classes = as_problem(victim, inputs, labels)
    if len(tensor) < FEWEST:
        raise ValueError(
            f"inputs: expected at least {FEWEST}, as shares of them are judged, got {len(tensor)}"
        )

    def accuracy(attacked):
        return _accuracy(victim, attacked, classes, batch_size)

    def iterated(budget, loss="cross_entropy", tries=1, of=model, **options):
        settings = {"steps": steps, "restarts": tries, "loss": loss} | (options or own)
        return accuracy(pgd(of, tensor, labels, budget, **settings))

    clean, many = accuracy(tensor), iterated(epsilon)
    half, whole = iterated(epsilon / 2), iterated(span)
    one = accuracy(fgsm(model, tensor, labels, epsilon, **own))
    compared, again = iterated(epsilon, "margin"), iterated(epsilon, tries=restarts)
    searched = accuracy(random_search(model, tensor, labels, epsilon, queries=queries, **own))
    silent = _silent(victim, tensor, classes, batch_size)
    checks = [
        Check("the cross-entropy has a gradient", silent <= SILENT, {"share without any": silent}),
        Check(
            "many steps are no weaker than one",
            many <= one + tolerance,
            {"one step": one, "many steps": many},
        ),
        Check(
            "a larger budget is no weaker",
            half <= clean + tolerance and many <= half + tolerance and whole <= many + tolerance,
            {"clean": clean, "half": half, "budget": many, "whole range": whole},
        ),
        Check("with every image in reach nothing is left", whole <= EASY, {"whole range": whole}),
        Check(
            "comparing logits is no stronger",
            compared >= many - tolerance,
            {"cross-entropy": many, "margin": compared},
        ),
        Check(
            "restarts find nothing new",
            again >= many - tolerance,
            {"one try": many, f"{restarts} tries": again},
        ),
        Check(
            "no gradient is no stronger",
            searched >= many - tolerance,
            {"with gradients": many, "without": searched},
        ),
    ]
    if surrogate is not None:
        moved = iterated(epsilon, of=surrogate, **shared)
        checks.append(
            Check(
                "another model's attack is no stronger",
                moved >= many - tolerance,
                {"own": many, "other's": moved},
            )
        )
    return MaskedGradientReport(tuple(checks))


def _accuracy(victim, attacked, classes, batch_size):
    """Share of right answers of the averaged prediction, under masks that no attack has seen."""
    tensor = torch.as_tensor(attacked).to(victim.device, victim.dtype)
    with victim.settled(), torch.inference_mode():
        right = [
            average(victim.log_probs(part, (2**31 + 1, number))).argmax(dim=1) == there
            for number, (part, there) in enumerate(
                zip(tensor.split(batch_size), classes.split(batch_size), strict=True)
            )
        ]
    return torch.cat(right).double().mean().item()


def _silent(victim, tensor, classes, batch_size):
    """Share of inputs on which the cross-entropy, as everybody computes it, has a gradient of exactly 0."""
    silent = []
    with victim.settled(), torch.enable_grad():
        batches = zip(tensor.split(batch_size), classes.split(batch_size), strict=True)
        for number, (part, there) in enumerate(batches):
            part = part.detach().requires_grad_()
            loss = torch.nn.functional.nll_loss(
                average(victim.log_probs(part, (0, number))), there, reduction="sum"
            )
            (gradient,) = torch.autograd.grad(loss, part)
            silent.append((gradient == 0).flatten(1).all(dim=1))
    return torch.cat(silent).double().mean().item()
