"""Both precisions, where the evidence is largest."""

import warnings

import numpy as np
from scipy.optimize import brentq

from uqhelpers.bayesian_linear_regression.triangle import one_a_weight

# Of alpha / beta around its natural scale, where the evidence looks: down to where the weights are 1e15
# times as large as the noise, and rounding is all the noise there is.
LOG_RATIOS = np.linspace(-70, 35, 421)
SMALLEST_LOG_RATIO = -35  # of those that are taken where there is no maximum: a posterior needs a prior
EXTREME = 1e280  # precisions beyond its reach cannot be multiplied with anything
ROUNDING = np.finfo(np.float64).eps


def choose(triangle, n, alpha, beta):
    """Both precisions: as given, or else such that the evidence is largest.

    In the coordinates of the features' singular values the posterior falls
    apart into numbers, and the evidence of a pair of precisions costs O(M).
    Whichever of the two are free, one number is left to be searched for, the
    ratio alpha / beta: for each ratio the best beta is known. So the whole
    range is looked at, and the highest of several maxima found. MacKay's two
    fixed-point equations hold there.
    """
    if not triangle[:, -1].any():
        raise ValueError("y: expected targets that are not all 0 for the evidence to choose by")
    scaled = triangle[:, :-1]
    if alpha is not None:  # in units of their prior standard deviations all weights have the precision 1
        if alpha.min() == 0:
            raise ValueError("alpha: expected above 0 where the evidence is to choose beta")
        scaled = scaled / np.sqrt(one_a_weight(alpha, scaled.shape[1]))
    targets = triangle[:, -1]
    # Tiny targets have squares that vanish: where both precisions are free, their unit is, too.
    unit = np.abs(targets).max() if alpha is None and beta is None else 1.0
    targets = targets / unit
    left, s, _ = np.linalg.svd(scaled, full_matrices=False)
    along = left.T @ targets
    rest = ((targets - left @ along) ** 2).sum()
    if rest <= (n * ROUNDING) ** 2 * (targets**2).sum():
        rest = 0.0  # rounding is no noise
    data = s**2, along**2, rest, n

    def precisions(ratio):
        if alpha is not None:
            return np.ones_like(ratio), 1 / ratio
        best = _best_beta(ratio, *data) if beta is None else np.full_like(ratio, beta)
        return ratio * best, best

    def slope(log_ratio):
        by_alpha, by_beta = _slopes(*precisions(np.exp([log_ratio])), *data)
        return by_alpha.item() if alpha is None else -by_beta.item()

    natural = data[0].mean() if alpha is None else (targets**2).sum() / n
    natural = np.log(natural if natural > 0 else 1.0)
    logs = natural + LOG_RATIOS
    top = _top(_evidence(*precisions(np.exp(logs)), *data))
    log_ratio = logs[top]
    if top in (0, len(logs) - 1):
        limit = "no noise" if top == 0 else "nothing but noise"
        warnings.warn(f"the evidence has no maximum: it grows towards {limit}", RuntimeWarning, stacklevel=4)
        log_ratio = max(log_ratio, natural + SMALLEST_LOG_RATIO)
    elif slope(logs[top - 1]) > 0 > slope(logs[top + 1]):  # else it is flat to rounding
        log_ratio = brentq(slope, logs[top - 1], logs[top + 1], xtol=1e-14)
    with np.errstate(over="ignore"):
        chosen = [(value / unit / unit).item() for value in precisions(np.exp([log_ratio]))]
    if not 1 / EXTREME < min(chosen) <= max(chosen) < EXTREME:
        size = "smaller" if max(chosen) >= EXTREME else "larger"
        raise ValueError(
            f"y: expected targets whose precision can be told in floats, got {size} ones: take another unit"
        )
    return (chosen[0] if alpha is None else alpha), (chosen[1] if beta is None else beta)


def _top(evidence):
    """Where it is highest: an end of the range, if it levels off towards that end to rounding."""
    best = int(evidence.argmax())
    for end in (len(evidence) - 1, 0):
        if evidence[best] - evidence[end] <= 1e-10 * (1 + abs(evidence[best])):
            return end
    return best


def _best_beta(ratio, squares, along, rest, n):
    """The beta of largest evidence for each ratio alpha / beta, in closed form."""
    return n / (rest + (along * ratio[:, None] / (ratio[:, None] + squares)).sum(axis=1))


def _evidence(alpha, beta, squares, along, rest, n):
    """Log evidence of pairs of precisions, up to a constant.

    ``squares`` are the features' squared singular values, ``along`` the squared
    targets in their directions, ``rest`` what of the targets no feature reaches.
    """
    alpha, beta_ = alpha[:, None], beta[:, None]
    misfit = beta * rest + (along * alpha * beta_ / (alpha + beta_ * squares)).sum(axis=1)
    return 0.5 * (n * np.log(beta) - np.log1p(beta_ * squares / alpha).sum(axis=1) - misfit)


def _slopes(alpha, beta, squares, along, rest, n):
    """Twice the derivatives of the log evidence by log alpha and by log beta.

    With γ weights determined by the data they are ``γ − alpha ‖m‖²`` and
    ``n − γ − beta ‖y − Φm‖²``: MacKay's equations set them to 0.
    """
    alpha_, beta_ = alpha[:, None], beta[:, None]
    both = alpha_ + beta_ * squares
    determined = (beta_ * squares / both).sum(axis=1)
    weights = (beta_**2 * squares * along / both**2).sum(axis=1)
    residual = rest + (along * (alpha_ / both) ** 2).sum(axis=1)
    return determined - alpha * weights, n - determined - beta * residual
