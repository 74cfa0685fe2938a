"""Small changes of the inputs that hurt a prediction most, written in JAX."""

from uqhelpers._checks import as_whole
from uqhelpers.deep_ensembles.ensemble import jax_part


def gradient_sign(loss, inputs, epsilon):
    """Inputs moved by ``epsilon`` in every coordinate, so that the loss rises: the gradient sign method.

    Parameters
    ----------
    loss : callable
        From inputs to a number, written with JAX.
    inputs : array, shape (N, ...)
    epsilon : float or array
        How far, in the units of the inputs.

    Returns
    -------
    jax.Array, the shape of ``inputs``
        A constant to whoever differentiates further.

    References
    ----------
    Goodfellow, Shlens and Szegedy (2015), Explaining and harnessing
    adversarial examples, section 4.
    """
    return jax_part().gradient_sign(loss, inputs, epsilon)


def virtual_adversarial_loss(predict, inputs, key, epsilon, iterations=1, divergence=None):
    """How far the prediction moves under the small change of each input that moves it most.

    Added to a loss it smooths the prediction around every input, labelled or
    not: virtual adversarial training. The direction is found by the power
    method with exact Hessian-vector products; finite differences, as in the
    paper, drown in float32's rounding.

    Parameters
    ----------
    predict : callable
        From inputs to logits, written with JAX; what it closes over can be
        differentiated by.
    inputs : array, shape (N, ...)
    key : jax.Array
        A key: the direction starts at random.
    epsilon : float or array
        Length of the change of each input, in the units of the inputs.
    iterations : int
        Steps of the power method.
    divergence : callable, optional
        From the outputs before and after to a number; by default the
        Kullback–Leibler divergence of the softmax, mean over inputs.

    Returns
    -------
    jax.Array
        A number, at least 0.

    References
    ----------
    Miyato et al. (2018), Virtual adversarial training: a regularization method
    for supervised and semi-supervised learning, section 3.
    """
    iterations = as_whole(iterations, "iterations")
    return jax_part().virtual_adversarial_loss(predict, inputs, key, epsilon, iterations, divergence)
