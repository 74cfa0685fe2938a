"""Losses to train with: of an example and its attacked copy, and of a prediction that does not hold still."""

from uqhelpers._checks import as_number, as_whole
from uqhelpers._torch import as_module, torch
from uqhelpers.adversarial.attacks import fgsm, pgd
from uqhelpers.adversarial.spaces import Space, lengths
from uqhelpers.adversarial.victims import as_inputs, as_problem, as_victim, classes_of
from uqhelpers.training import evaluating, seeded

functional = torch.nn.functional


def adversarial_loss(
    model, inputs, labels, epsilon, *, steps=1, step_size=None, seed=0, bounds=(0.0, 1.0), mean=0.0, std=1.0
):
    """The mean cross-entropy of a batch and of the same batch attacked, half of each.

    The attack meets the network in evaluation mode and is a constant to whoever
    differentiates further; the two losses are then taken in the mode in which
    the network came (so that dropout drops, if it trains).

    Parameters
    ----------
    model : torch.nn.Module
        A classifier that puts out logits.
    inputs : array, shape (N, ...)
    labels : array of int, shape (N,)
    epsilon : float
        The budget a pixel, at least 0; at 0 it is the plain loss.
    steps : int
        1 for the gradient sign, more for projected gradient descent from a
        random start. Long training against the single step can end with a
        network that resists nothing else (Wong, Rice and Kolter 2020).
    step_size : float, optional
        Of several steps, as in :func:`pgd`.
    seed : int
        Of the random start: another one for every batch.
    bounds, mean, std : as in :func:`fgsm`

    Returns
    -------
    torch.Tensor
        A number, which can be differentiated by the parameters.

    References
    ----------
    Goodfellow, Shlens and Szegedy (2015), section 6, with their weight of one
    half; with many steps and all of the weight on the attacked copy it is the
    training of Madry et al. (2018). Wong, Rice and Kolter (2020), Fast is better
    than free: revisiting adversarial training.
    """
    victim = as_victim(as_module(model))
    tensor, classes = as_problem(victim, inputs, labels)
    options = {"bounds": bounds, "mean": mean, "std": std, "batch_size": len(tensor)}
    if as_whole(steps, "steps") == 1:
        attacked = fgsm(model, tensor, labels, epsilon, **options)
    else:
        attacked = pgd(model, tensor, labels, epsilon, steps=steps, step_size=step_size, seed=seed, **options)
    attacked = torch.from_numpy(attacked).to(tensor)
    return (
        functional.cross_entropy(model(tensor), classes) + functional.cross_entropy(model(attacked), classes)
    ) / 2


def virtual_adversarial_loss(model, inputs, epsilon, *, iterations=1, seed=0, bounds=None, mean=0.0, std=1.0):
    """How far the prediction moves under the small change of each input that moves it most, without labels.

    The Kullback–Leibler divergence between the softmax before and after, mean
    over inputs. It has no slope at the input itself, so its steepest direction
    is that of its largest *curvature*, found by the power method with exact
    products; finite differences, as in the paper, drown in single precision's
    rounding.

    Parameters
    ----------
    model : torch.nn.Module
        A classifier that puts out logits. The direction is found in evaluation
        mode; the divergence is taken in the mode in which the network came, with
        the same dropout masks before and after.
    inputs : array, shape (N, ...)
        With or without labels that somebody knows.
    epsilon : float
        Euclidean length of the change of each input, in pixels, at least 0.
    iterations : int
        Steps of the power method.
    seed : int
        The direction starts at random: another seed for every batch.
    bounds, mean, std
        As in :func:`fgsm`; without bounds the change may leave the pixels' range.

    Returns
    -------
    torch.Tensor
        A number of at least 0, to be differentiated by the parameters. The
        prediction before the change counts as a constant.

    References
    ----------
    Miyato et al. (2018), Virtual adversarial training: a regularization method
    for supervised and semi-supervised learning, section 3.
    """
    victim = as_victim(as_module(model))
    epsilon, iterations = as_number(epsilon, "epsilon", low=0), as_whole(iterations, "iterations")
    seed = as_whole(seed, "seed", low=0)
    tensor = as_inputs(victim, inputs)
    classes_of(victim, tensor)  # refuses what puts out no logits
    space = Space.of(tensor, bounds, mean, std)
    with seeded(seed):
        direction = _unit(torch.randn(tensor.shape).to(tensor))
    with evaluating(model):
        for _ in range(iterations):
            direction = _unit(_curved(model, tensor, direction / space.std) / space.std)
    moved = space.clipped(tensor + epsilon * direction / space.std)
    with seeded(seed):
        before = model(tensor).log_softmax(1)
    with seeded(seed):
        after = model(moved).log_softmax(1)
    return functional.kl_div(after, before.detach(), reduction="batchmean", log_target=True)


def _curved(model, inputs, direction):
    """The divergence's Hessian at each input, times a direction.

    The divergence has its minimum there, so its Hessian is Jᵀ (diag p - p pᵀ) J,
    J being the derivative of the logits; no second derivative of the network.
    """
    inputs = inputs.detach().requires_grad_()
    with torch.enable_grad():
        logits = model(inputs.clone())  # its first layer may work in place
        probs = logits.softmax(1).detach()
        along = torch.zeros_like(logits, requires_grad=True)
        (pulled,) = torch.autograd.grad(logits, inputs, along, create_graph=True)
        (pushed,) = torch.autograd.grad(pulled, along, direction, retain_graph=True)  # J times the direction
        weighted = probs * pushed
        weighted = weighted - probs * weighted.sum(dim=1, keepdim=True)
        return torch.autograd.grad(logits, inputs, weighted.detach())[0]


def _unit(direction):
    """Each input's direction with length 1; one without any length stays 0."""
    length = lengths(direction)
    return torch.where(length > 0, direction / length, 0.0)
