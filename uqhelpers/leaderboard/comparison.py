"""Who is better than whom, as far as so few runs can tell: ranks, differences with intervals, fronts."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from uqhelpers._checks import as_choice, as_generator, as_number, as_real, as_whole
from uqhelpers.features import power_of_two
from uqhelpers.leaderboard.disentanglement import rank_correlation

__all__ = ["Ranks", "agreement", "critical_difference", "difference", "pareto_front", "ranks"]


def _below_one(value, name):
    number = as_number(value, name, low=0, high=1, open_low=True)
    if number == 1:
        raise ValueError(f"{name}: expected a number below 1, got 1")
    return number


@dataclasses.dataclass(frozen=True, eq=False)
class Ranks:
    """Mean ranks of methods over blocks, and how far apart two must be.

    Attributes
    ----------
    mean : dict of float
        By method, from 1 (best) to the number of methods; sorted, best first.
    critical : float
        Two mean ranks that differ by less are not told apart.
    p_value : float
        Friedman's test: how often so much order would come by chance, if all
        methods were alike.
    blocks : int
    """

    mean: dict
    critical: float
    p_value: float
    blocks: int

    def groups(self):
        """The longest runs of methods within one critical difference: lists of names, best first."""
        names, values = list(self.mean), np.array(list(self.mean.values()))
        found, reached = [], -1
        for start in range(len(names)):
            end = int(np.flatnonzero(values <= values[start] + self.critical)[-1])
            if end > reached and end > start:
                found.append(names[start : end + 1])
                reached = end
        return found


def critical_difference(methods, blocks, alpha=0.05):
    """Nemenyi's critical difference of two mean ranks.

    Parameters
    ----------
    methods : int
        How many are compared, at least 2.
    blocks : int
        In how many runs or data sets each of them was ranked.
    alpha : float
        How often chance may bring about one difference as large, among all pairs;
        above 0 and below 1.

    Returns
    -------
    float
        In ranks.

    References
    ----------
    Nemenyi (1963), Distribution-free multiple comparisons. Demšar (2006),
    Statistical comparisons of classifiers over multiple data sets, section 3.2.2.
    """
    from scipy.stats import studentized_range

    methods, blocks = as_whole(methods, "methods", low=2), as_whole(blocks, "blocks")
    alpha = _below_one(alpha, "alpha")
    quantile = studentized_range.ppf(1 - alpha, methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6 * blocks)))


def ranks(figures, best="min", alpha=0.05):
    """Rank methods within each block, and average.

    Parameters
    ----------
    figures : dict of array, shape (B,)
        By method, one figure a block (a seed, a data set), the same blocks for
        all. Ties share their ranks.
    best : {"min", "max"}
    alpha : float
        As for :func:`critical_difference`.

    Returns
    -------
    Ranks

    References
    ----------
    Demšar (2006), Statistical comparisons of classifiers over multiple data sets.
    """
    from scipy.stats import chi2, rankdata

    as_choice(best, "best", ("min", "max"))
    if not isinstance(figures, Mapping):
        raise ValueError(f"figures: expected a dict of figures by method, got {type(figures).__name__}")
    table = as_real(list(figures.values()), "figures", ndim=2)
    count, blocks = table.shape
    if count < 2:
        raise ValueError(f"figures: expected at least two methods, got {count}")
    places = rankdata(table if best == "min" else -table, axis=0)
    mean = places.mean(axis=1)
    spread = ((places - (count + 1) / 2) ** 2).sum()  # less than without ties, by as much as they take away
    between = blocks**2 * ((mean - (count + 1) / 2) ** 2).sum()
    statistic = (count - 1) * between / spread if spread > 0 else 0.0
    order = np.argsort(mean, kind="stable")
    names = list(figures)
    return Ranks(
        {names[k]: float(mean[k]) for k in order},
        critical_difference(count, blocks, alpha),
        float(chi2.sf(statistic, count - 1)),
        blocks,
    )


def difference(first, second, first_resampled=None, second_resampled=None, level=0.95):
    """Mean difference of two methods over paired seeds, with an interval over seeds and inputs.

    The variance of the mean has two parts: that between seeds, over their
    number, and that of the mean over resampled inputs. What belongs to a seed
    and an input alike is counted in both, so that the interval errs to the
    wide side. Student's t has the degrees of freedom of such a sum
    (Satterthwaite 1946).

    Parameters
    ----------
    first, second : array, shape (S,)
        A figure for each of the same seeds.
    first_resampled, second_resampled : array, shape (R,) or (S, R), optional
        The same figures from the same resampled inputs, averaged over the
        seeds or not. Without them the inputs count as given.
    level : float
        Of the interval, above 0 and below 1.

    Returns
    -------
    mean, half_width : float
        ``first - second``, and how far the interval reaches to either side.

    References
    ----------
    Satterthwaite (1946), An approximate distribution of estimates of variance
    components.
    """
    from scipy.stats import t

    first, second = (as_real(v, n, ndim=1) for v, n in ((first, "first"), (second, "second")))
    level = _below_one(level, "level")
    if first.shape != second.shape or len(first) < 2:
        raise ValueError(
            "second: expected as many seeds as in first, two or more, "
            f"got shapes {first.shape} and {second.shape}"
        )
    gaps = first - second
    drawn = None
    if (first_resampled is None) != (second_resampled is None):
        raise ValueError("second_resampled: expected resampled figures of both methods or of none")
    if first_resampled is not None:
        pair = [
            as_real(values, name)
            for values, name in (
                (first_resampled, "first_resampled"),
                (second_resampled, "second_resampled"),
            )
        ]
        if pair[0].shape != pair[1].shape:
            raise ValueError(f"second_resampled: expected shape {pair[0].shape}, got {pair[1].shape}")
        if pair[0].ndim not in (1, 2) or (pair[0].ndim == 2 and len(pair[0]) != len(first)):
            raise ValueError(
                f"first_resampled: expected shape (resamples,) or ({len(first)}, resamples), "
                f"got {pair[0].shape}"
            )
        if pair[0].shape[-1] < 2:
            raise ValueError("first_resampled: expected two resamples or more, got 1")
        drawn = pair[0] - pair[1]
        drawn = drawn.mean(axis=0) if drawn.ndim == 2 else drawn
    # Squares of what is left in this unit, a power of two, stay inside float64.
    unit = power_of_two(max(np.abs(part).max() for part in (gaps, drawn) if part is not None))
    variance, freedom = (gaps / unit).var(ddof=1) / len(gaps), len(gaps) - 1.0
    if drawn is not None:
        of_inputs = (drawn / unit).var(ddof=1)
        if variance + of_inputs > 0:
            parts = variance**2 / freedom + of_inputs**2 / (len(drawn) - 1)
            freedom = (variance + of_inputs) ** 2 / parts
        variance += of_inputs
    return float(gaps.mean()), float(t.ppf((1 + level) / 2, freedom) * np.sqrt(variance) * unit)


def agreement(first, second, first_resampled, second_resampled, level=0.95, draws=1000, seed=0):
    """Rank correlation of two tables' means over methods, with an interval over seeds and inputs.

    Seeds are drawn again with replacement, and one of the resampled sets of
    inputs along with them, in each table by itself and the same for all methods
    of a table. What is drawn again has more noise than the means, and noise
    lowers a correlation. So both are taken, the middle of what was drawn and its
    reflection about what was found (on the scale of the inverse hyperbolic
    tangent), and the interval is the least that holds both. The methods count
    as given.

    Parameters
    ----------
    first, second : array, shape (M, S) and (M, T)
        Figures of the same methods, one a seed.
    first_resampled, second_resampled : array, shape (M, R) and (M, Q)
        The same from resampled inputs, averaged over seeds.
    level : float
        Of the interval, above 0 and below 1.
    draws : int
    seed : int or numpy.random.Generator

    Returns
    -------
    correlation, low, high : float
        Spearman's.

    References
    ----------
    Davison and Hinkley (1997), Bootstrap methods and their application, section
    5.2, on intervals of percentiles and of reflected ones.
    """
    tables = [as_real(v, n, ndim=2) for v, n in ((first, "first"), (second, "second"))]
    drawn = [
        as_real(v, n, ndim=2)
        for v, n in ((first_resampled, "first_resampled"), (second_resampled, "second_resampled"))
    ]
    if len({len(part) for part in (*tables, *drawn)}) > 1 or len(tables[0]) < 3:
        raise ValueError(
            "second: expected figures of the same three methods or more, got "
            + ", ".join(str(part.shape) for part in (*tables, *drawn))
        )
    for table, name in zip(tables, ("first", "second"), strict=True):
        if np.ptp(table.mean(axis=1)) == 0:
            raise ValueError(f"{name}: expected methods that differ, got the same mean for all of them")
    level, rng, draws = _below_one(level, "level"), as_generator(seed), as_whole(draws, "draws")

    def again(table, inputs):
        seeds = rng.integers(table.shape[1], size=(draws, table.shape[1]))
        moved = inputs[:, rng.integers(inputs.shape[1], size=draws)] - inputs.mean(axis=1, keepdims=True)
        return (table[:, seeds].mean(axis=2) + moved).T

    found = rank_correlation(*(table.mean(axis=1) for table in tables))
    ends = np.quantile(_row_by_row(*map(again, tables, drawn)), [(1 - level) / 2, (1 + level) / 2])
    reach = 1 - 1e-9  # the scale ends where two orders are the same
    reflected = np.tanh(
        2 * np.arctanh(np.clip(found, -reach, reach)) - np.arctanh(np.clip(ends, -reach, reach))
    )
    return found, float(min(*ends, *reflected)), float(max(*ends, *reflected))


def _row_by_row(first, second):
    """Spearman's correlation of each row of one with the same row of the other."""
    from scipy.stats import rankdata

    ranks = [rankdata(table, axis=1) - (table.shape[1] + 1) / 2 for table in (first, second)]
    return (ranks[0] * ranks[1]).sum(axis=1) / np.sqrt(np.prod([(r**2).sum(axis=1) for r in ranks], axis=0))


def pareto_front(costs, losses):
    """Which points no other point beats in both: none is cheaper and better at once.

    Parameters
    ----------
    costs, losses : array, shape (N,)
        Lower is better in both.

    Returns
    -------
    array of bool, shape (N,)
        Equal points stand or fall together.
    """
    costs = as_real(costs, "costs", ndim=1)
    losses = as_real(losses, "losses", ndim=1)
    if len(costs) != len(losses):
        raise ValueError(f"losses: expected {len(costs)} values, one a cost, got {len(losses)}")
    no_worse = (costs[:, None] <= costs) & (losses[:, None] <= losses)
    better = no_worse & ((costs[:, None] < costs) | (losses[:, None] < losses))
    return ~better.any(axis=0)
