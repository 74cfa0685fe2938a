"""Evidential networks: one network that puts out a distribution over predictions instead of a prediction.

For classes the network puts out the concentrations α of a Dirichlet over class
probabilities, for numbers the four parameters of a normal-inverse-gamma over
mean and variance. A *head* at the end of an ordinary network sees to it that
they are legal; the losses, ``predict`` and ``predict_regression`` take what a
head puts out, so that an activation cannot be forgotten on one of the ways::

    model = torch.nn.Sequential(models.MLP(64, 10), DirichletHead())
    loss = EvidentialLoss("mse", annealing_steps=80)
    training.fit(model, inputs, labels, epochs=30, loss=loss)
    predict(model, inputs).vacuity

What comes out ranks inputs. It is no posterior, and what is called epistemic
here does not shrink as examples come in: the chapter measures it.
"""

from uqhelpers.evidential import classification, dirichlet, heads, regression
from uqhelpers.evidential.classification import *  # noqa: F403
from uqhelpers.evidential.dirichlet import *  # noqa: F403
from uqhelpers.evidential.heads import *  # noqa: F403
from uqhelpers.evidential.regression import *  # noqa: F403

__all__ = [
    *classification.__all__,
    *dirichlet.__all__,
    *heads.__all__,
    *regression.__all__,
]
