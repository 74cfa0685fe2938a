"""Simulated years of a clinic: patients drawn from real rows, and a change on a known day."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import (
    as_choice,
    as_flags,
    as_generator,
    as_number,
    as_real,
    as_whole,
)
from uqhelpers.case_study.bets import mirrored, miss_bet, online_p_values, tilt_bet
from uqhelpers.case_study.costs import expected_price

__all__ = ["DRIFTS", "LABELLED", "SCORES", "Clinic", "Years", "magnified", "usual_bets"]

DRIFTS = {
    "quiet": "nothing changes",
    "magnification": "all lengths are measured too large by a share `size`, areas by its square",
    "more cancers": "`size` times as many of the patients have the event",
    "harder patients": "the quarter whose decision is dearest comes `size` times as often",
    "another disease": "a share `size` of the patients has the other truth behind the same measurements",
}
SCORES = {
    "inputs": "how far the measurements lie from those that were learned from",
    "predictions": "the probability of the event",
    "misfit": "one minus the probability of what came",
    "gap": "what came (0 or 1) minus the probability of the event",
}
LABELLED = ("misfit", "gap")
SIZES = {"harder patients": (0, np.inf), "another disease": (0, 1)}  # else from -1
CREEPS = 20  # steps in which an instrument goes wrong that does so slowly


def magnified(features, names, size):
    """Features as an instrument would give them that shows all lengths too large by a share ``size``.

    Parameters
    ----------
    features : array, shape (N, D)
        Of ``cancer``.
    names : sequence of str
        Of the columns: those of a radius or perimeter are lengths, those of an area squares of lengths.
    size : float
        Above -1.

    Returns
    -------
    array, shape (N, D), float64
    """
    features = as_real(features, "features", ndim=2)
    if len(names) != features.shape[1]:
        raise ValueError(f"names: expected {features.shape[1]}, one a column, got {len(names)}")
    size = as_number(size, "size", low=-1, open_low=True)
    powers = [2 if "area" in name else int("radius" in name or "perimeter" in name) for name in names]
    return features * (1 + size) ** np.array(powers)


@dataclass(frozen=True, eq=False)
class Years:
    """Simulated years.

    Attributes
    ----------
    ranks : dict of array, shape (years, T)
        For each name in ``SCORES`` the ranks of its scores, see ``online_p_values``.
    scores : dict of array, shape (years, T)
        The scores themselves.
    past : dict of array, shape (years, n)
        Those that each year began with.
    events, probs : array, shape (years, T)
        What came, and the probability that was said.
    onset : int
        The first patient after the change.
    """

    ranks: dict
    scores: dict
    past: dict
    events: np.ndarray
    probs: np.ndarray
    onset: int


class Clinic:
    """A clinic whose patients are rows of a table, drawn with replacement.

    Parameters
    ----------
    features : array, shape (N, D)
        Rows that nothing was fitted to.
    events : array of bool, shape (N,)
        Their labels.
    predict : callable
        From features, shape (N, D), to probabilities of the event, shape (N,).
    strangeness : callable
        From features to a score, shape (N,), higher for stranger.
    names : sequence of str
        Of the columns.

    Notes
    -----
    Past and stream are independent draws from the same rows, so they are
    exchangeable until something changes; the small table cannot let the two
    differ.
    """

    def __init__(self, features, events, predict, strangeness, names):
        self.features = as_real(features, "features", ndim=2)
        self.events = as_flags(events, "events", length=len(self.features))
        self.predict, self.strangeness, self.names = predict, strangeness, tuple(names)
        self._seen = {}

    def _read(self, size=0.0):
        """Probabilities and strangeness of all rows, as an instrument shows them."""
        if size not in self._seen:
            shown = magnified(self.features, self.names, size)
            probs = as_real(self.predict(shown), "predict", ndim=1)
            strange = as_real(self.strangeness(shown), "strangeness", ndim=1)
            for name, values in (("predict", probs), ("strangeness", strange)):
                if len(values) != len(shown):
                    raise ValueError(f"{name}: expected {len(shown)} values, one a row, got {len(values)}")
            if probs.min() < 0 or probs.max() > 1:
                raise ValueError(
                    f"predict: expected probabilities of the event, in [0, 1], got {probs.min():.4g} to "
                    f"{probs.max():.4g}: are these logits?"
                )
            self._seen[size] = probs, strange
        return self._seen[size]

    def _weights(self, drift, size):
        """How likely each row is to come, after the change."""
        share = np.ones(len(self.events))
        if drift == "more cancers":
            rate = self.events.mean() * size
            if not 0 < rate < 1:
                raise ValueError(f"size: expected a share of events between 0 and 1, got {rate:.4g}")
            share = np.where(self.events, rate / self.events.mean(), (1 - rate) / (1 - self.events.mean()))
        if drift == "harder patients":
            dear = expected_price(self._read()[0], 20, 1)
            share = np.where(dear > np.quantile(dear, 0.75), size, 1.0)
        return share / share.sum()

    def years(
        self,
        drift="quiet",
        size=0.0,
        years=100,
        patients=500,
        onset=100,
        past=115,
        seed=0,
        scores=None,
        ramp=0,
    ):
        """Simulate years, each with its own past.

        Parameters
        ----------
        drift : str
            A name in ``DRIFTS``.
        size : float
            Of the drift: a share from 0 to 1 for another disease, at least 0 for
            harder patients; without meaning in quiet years.
        years, patients : int
            How many years, of how many patients each.
        onset : int
            The first patient after the change, counted from 0.
        past : int
            Labelled cases to begin each year with.
        seed : int or numpy.random.Generator
            Of the draws.
        scores : sequence of str, optional
            Which of ``SCORES`` to rank; by default all.
        ramp : int
            Patients over which the change grows, in equal steps, to its size; by
            default it is there at once. An instrument creeps in ``CREEPS`` steps; of
            patients or their disease a growing share is as after the change.

        Returns
        -------
        Years
        """
        drift = as_choice(drift, "drift", tuple(DRIFTS))
        size, rng = as_number(size, "size", *SIZES.get(drift, (-1, np.inf))), as_generator(seed)
        years, patients = as_whole(years, "years"), as_whole(patients, "patients")
        onset, past = as_whole(onset, "onset", low=0, high=patients), as_whole(past, "past")
        rows, after = len(self.events), patients - onset
        first = rng.integers(rows, size=(years, past + onset))
        then = rng.choice(rows, size=(years, after), p=self._weights(drift, size))
        grown = _grown(after, as_whole(ramp, "ramp", low=0))
        if ramp and drift != "magnification":
            then = np.where(rng.random((years, after)) < grown, then, rng.integers(rows, size=(years, after)))
        steps, step = np.unique(np.ceil(CREEPS * grown) / CREEPS, return_inverse=True)
        levels = [self._read(size * s if drift == "magnification" else 0.0) for s in steps.tolist()]
        probs, strange = (
            np.concatenate([before[first], np.array(now)[step, then]], axis=1)
            for before, now in zip(self._read(), zip(*levels, strict=True), strict=True)
        )
        events = self.events[np.concatenate([first, then], axis=1)]
        if drift == "another disease":
            events[:, past + onset :] ^= rng.random((years, after)) < size * grown
        every = {
            "inputs": strange,
            "predictions": probs,
            "misfit": np.where(events, 1 - probs, probs),
            "gap": events - probs,
        }
        chosen = tuple(SCORES) if scores is None else [as_choice(s, "scores", tuple(SCORES)) for s in scores]
        ranks = {
            name: np.array([online_p_values(row[:past], row[past:], rng) for row in every[name]])
            for name in chosen
        }
        return Years(
            ranks,
            {name: every[name][:, past:] for name in chosen},
            {name: every[name][:, :past] for name in chosen},
            events[:, past:],
            probs[:, past:],
            onset,
        )


def _grown(patients, ramp):
    """How much of the change is there for each patient after its onset."""
    return np.minimum(np.arange(1, patients + 1) / ramp, 1.0) if ramp else np.ones(patients)


def usual_bets(score):
    """What to bet on for a score: that the highest tenth is met twice as often, for a gap also the lowest.

    For predictions, which are high or low and little between, that all rise or fall.

    Parameters
    ----------
    score : str
        A name in ``SCORES``.

    Returns
    -------
    list of callable
        For ``Alarm``.
    """
    score = as_choice(score, "score", tuple(SCORES))
    tenth, tilt = miss_bet(0.1, 2), tilt_bet()
    return {"gap": [tenth, mirrored(tenth)], "predictions": [tilt, mirrored(tilt)]}.get(score, [tenth])
