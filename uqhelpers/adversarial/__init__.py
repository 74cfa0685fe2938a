"""Adversarial inputs: small changes made to be misread, what they do to doubt, what can be promised.

``fgsm`` and ``pgd`` change inputs within a budget so that a network, an ensemble,
or a network with its dropout on (``passes``) errs; ``random_search`` does it
without a gradient. ``sweep`` follows accuracy and uncertainty as the budget
grows. ``masked_gradient_report`` asks whether an attack that failed was any good.
``adversarial_loss`` and ``virtual_adversarial_loss`` train against attacks, and
``Smoothed`` makes promises that no attack can break.

Budgets are in *pixels*, the units from before any standardisation. Whoever
standardises outside of the network says so by ``mean`` and ``std``.
"""

from uqhelpers.adversarial.attacks import fgsm, pgd, random_search
from uqhelpers.adversarial.gains import LOSSES
from uqhelpers.adversarial.losses import adversarial_loss, virtual_adversarial_loss
from uqhelpers.adversarial.reports import Check, MaskedGradientReport, masked_gradient_report
from uqhelpers.adversarial.smoothing import Certificate, Smoothed, clopper_pearson
from uqhelpers.adversarial.sweeps import Sweep, sweep

__all__ = [
    "LOSSES",
    "Certificate",
    "Check",
    "MaskedGradientReport",
    "Smoothed",
    "Sweep",
    "adversarial_loss",
    "clopper_pearson",
    "fgsm",
    "masked_gradient_report",
    "pgd",
    "random_search",
    "sweep",
    "virtual_adversarial_loss",
]
