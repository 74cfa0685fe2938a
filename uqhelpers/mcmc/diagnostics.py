"""Below ``mcmc``: whether to believe chains. Plain NumPy, for the chains of any sampler."""

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from uqhelpers._checks import as_choice, as_real
from uqhelpers.features import power_of_two

KINDS = ("bulk", "tail", "mean")


def r_hat(draws):
    """Rank-normalised split R̂: how much wider all chains together are than each of their halves.

    Near 1 where the halves of all chains agree. The larger one of two: of the
    ranks of the draws, which sees different places, and of the ranks of their
    distances from the median, which sees different widths. It cannot see what
    no chain has visited.

    Parameters
    ----------
    draws : array, shape (M, T) or (M, T, ...)
        ``T`` draws of each of ``M`` chains, at least four; every further axis
        holds other quantities.

    Returns
    -------
    float, or array of the further axes' shape
        At most 1.01 is what Vehtari et al. ask for. Infinite where every chain
        stands still and not all in one place, NaN where nothing varies at all.

    Raises
    ------
    ValueError
        If there are fewer than four draws, or a draw is not finite.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021),
    Rank-normalization, folding, and localization: an improved R̂ for
    assessing convergence of MCMC, sections 3 and 4.
    """
    draws, shape = _as_draws(draws)
    halves = _halves(draws)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    # Where the distances from the median are all alike they say nothing, and the places alone decide.
    found = np.fmax(_ratio(_normal_scores(halves)), _ratio(_normal_scores(folded)))
    return _shaped(found, shape)


def effective_sample_size(draws, kind="bulk"):
    """How many independent draws the chains are worth.

    Parameters
    ----------
    draws : array, shape (M, T) or (M, T, ...)
        As for :func:`r_hat`.
    kind : {"bulk", "tail", "mean"}
        For the middle of the distribution (from the ranks), for its 5 % and
        95 % quantiles (the worse of the two), or for the plain mean.

    Returns
    -------
    float, or array of the further axes' shape
        Chains that alternate around the mean can be worth more than they have
        draws; chains that never move are worth as many as they have, as
        nothing can be said against them.

    Raises
    ------
    ValueError
        As :func:`r_hat`; also if ``kind`` is another.

    References
    ----------
    Vehtari et al. (2021), as for :func:`r_hat`; Geyer (1992), Practical Markov
    chain Monte Carlo, section 3.3 (where the sum of correlations stops).
    """
    as_choice(kind, "kind", KINDS)
    draws, shape = _as_draws(draws)
    if kind == "tail":
        edges = np.quantile(draws, [0.05, 0.95], axis=(0, 1))
        worth = [_worth(_halves((draws <= edge).astype(float))) for edge in edges]
        return _shaped(np.minimum(*worth), shape)
    halves = _halves(_in_units(draws)[0])
    return _shaped(_worth(_normal_scores(halves) if kind == "bulk" else halves), shape)


def monte_carlo_error(draws):
    """Standard error of the mean over all draws, their correlation counted.

    Parameters
    ----------
    draws : array, shape (M, T) or (M, T, ...)
        As for :func:`r_hat`.

    Returns
    -------
    float, or array of the further axes' shape
        In the units of the draws: their standard deviation over the root of
        the effective sample size of the mean.

    Raises
    ------
    ValueError
        As :func:`r_hat`.
    """
    checked, shape = _as_draws(draws)
    scaled, unit = _in_units(checked)
    return _shaped(scaled.std(axis=(0, 1), ddof=1) / np.sqrt(_worth(_halves(scaled))) * unit, shape)


def _as_draws(draws):
    """Draws as (chains, draws, quantities), and the shape that the answer has."""
    draws = as_real(draws, "draws")
    if draws.ndim < 2 or draws.shape[1] < 4:
        raise ValueError(f"draws: expected shape (chains, at least 4 draws, ...), got {draws.shape}")
    return draws.reshape(*draws.shape[:2], -1), draws.shape[2:]


def _in_units(draws):
    """Each quantity in a unit of its own, a power of two: squares stay inside float64, nothing rounds."""
    unit = power_of_two(np.abs(draws).max(axis=(0, 1)))
    return draws / unit, unit


def _shaped(values, shape):
    return values.reshape(shape) if shape else float(values[0])


def _halves(draws):
    """Each chain parted into its first and its last half; an odd draw in the middle is left out."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _normal_scores(draws):
    """Normal quantiles of the ranks among all draws of a quantity."""
    flat = draws.reshape(-1, draws.shape[-1])
    scores = ndtri((rankdata(flat, axis=0) - 0.375) / (len(flat) + 0.25))
    return scores.reshape(draws.shape)


def _ratio(chains):
    """The classical R̂ of chains, quantity by quantity."""
    length = chains.shape[1]
    still = np.ptp(chains, axis=1).max(axis=0) == 0  # a variance of equal numbers may round to more than 0
    within = np.where(still, 0, chains.var(axis=1, ddof=1).mean(axis=0))
    between = chains.mean(axis=1).var(axis=0, ddof=1) * length
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt((between / within + length - 1) / length)


def _autocovariances(chains):
    """Mean autocovariance of the chains at each lag, shape (lags, quantities), by the Fourier transform."""
    chains = chains - chains.mean(axis=1, keepdims=True)
    length = chains.shape[1]
    size = 2 ** int(np.ceil(np.log2(2 * length)))
    spectrum = np.fft.rfft(chains, size, axis=1)
    power = np.fft.irfft(np.abs(spectrum) ** 2, size, axis=1)[:, :length]
    return power.mean(axis=0) / length


def _worth(chains):
    """Effective sample size of the mean of chains, by Geyer's monotone sequence of pairs."""
    count, length, quantities = chains.shape
    total = count * length
    if length < 2:
        return np.full(quantities, float(total))
    lags = _autocovariances(chains)
    within = lags[0] * length / (length - 1)
    spread = within * (length - 1) / length
    if count > 1:
        spread = spread + chains.mean(axis=1).var(axis=0, ddof=1)
    still = np.ptp(chains, axis=(0, 1)) < np.finfo(float).resolution
    with np.errstate(invalid="ignore", divide="ignore"):
        rho = 1 - (within - lags) / spread
    rho[0] = 1.0
    found = np.empty(quantities)
    for number in range(quantities):
        found[number] = total if still[number] else total / _time(rho[:, number], total)
    return found


def _time(rho, total):
    """Integrated autocorrelation time, at least that of the best alternation that is believed."""
    length = len(rho)
    # Pairs of neighbours (ρ₀ + ρ₁, ρ₂ + ρ₃, …) are positive and fall, for a chain that is reversible:
    # where they do not, what is left is noise. The last one looked at starts before lag length - 2.
    most = max(1, (length - 1) // 2)
    even, odd = rho[: 2 * most : 2], rho[1 : 2 * most : 2]
    pairs = even[: len(odd)] + odd
    bad = np.flatnonzero(pairs <= 0)
    last = bad[0] if len(bad) else len(pairs) - 1
    summed = np.minimum.accumulate(pairs[:last]).sum()
    alone = even[last] if even[last] > 0 or pairs[last] >= 0 else 0.0
    return max(-1 + 2 * summed + alone, 1 / np.log10(total))
