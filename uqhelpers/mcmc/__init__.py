"""Markov chains that draw from a posterior: the answer that every approximation is measured by.

``sample`` runs Hamiltonian Monte Carlo on any density written in JAX, all
chains in one ``vmap`` and all steps in ``scan``; ``network_posterior`` does so
for the weights of a small network. ``r_hat``, ``effective_sample_size`` and
``divergences`` say whether to believe it. JAX is imported when the first chain
runs; the diagnostics need NumPy only.
"""

from uqhelpers.mcmc.diagnostics import effective_sample_size, monte_carlo_error, r_hat
from uqhelpers.mcmc.networks import (
    ClassificationPosterior,
    RegressionPosterior,
    network_posterior,
    network_prior,
)
from uqhelpers.mcmc.sampler import Chains, divergences, sample

__all__ = [
    "Chains",
    "ClassificationPosterior",
    "RegressionPosterior",
    "divergences",
    "effective_sample_size",
    "monte_carlo_error",
    "network_posterior",
    "network_prior",
    "r_hat",
    "sample",
]
