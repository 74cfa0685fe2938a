"""A small exercise of two questions, for tests of the machinery: 2 and 3 points, and one for a person."""

import numpy as np

from uqhelpers.grading._engine import expect_close, manual, question
from uqhelpers.metrics import mutual_information


@question("q1", points=2, hint="multiply by two")
def doubles(learner, seed):
    x = np.random.default_rng(seed).normal(size=5)
    expect_close(learner.call("double", x), 2 * x, mistakes={"that is the square": x**2})


HELPERS = ("metrics.mutual_information", "metrics.decompose", "metrics.SampleAccumulator")


@question("q2", points=3, forbids=HELPERS)
def finds_disagreement(learner, seed):
    probs = np.random.default_rng(seed).dirichlet(np.ones(3), size=(6, 8))
    expect_close(learner.call("epistemic", probs), mutual_information(probs))


said = manual("q3", "Say what you see.", {"sees it": 1, "says it": 1})
