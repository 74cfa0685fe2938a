"""Checks of the exercise on the first classifier."""

import functools

import numpy as np

from .._engine import (
    as_number,
    as_numbers,
    expect,
    expect_choice,
    expect_close,
    expect_parts,
    manual,
    part,
    question,
)


def softmax(logits, axis=1):
    powers = np.exp(logits - logits.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


@question(
    "q1",
    points={"the loss": 1, "its slope": 2},
    hint="Write -log p_y as log Σ exp(f_c) - f_y and differentiate. The mean over the inputs divides both.",
    forbids=("metrics.from_logits", "metrics.negative_log_likelihood"),
    read="The training loop",
)
def the_loss_and_its_slope_are_right(learner, seed):
    rng = np.random.default_rng(seed)
    logits, labels = 2 * rng.normal(size=(6, 4)), rng.integers(4, size=6)
    got = expect_parts(learner.call("loss_and_slope", logits, labels), ["the loss", "its slope"])
    probs, truth = softmax(logits), np.eye(4)[labels]
    of_label = -np.log((probs * truth).sum(axis=1))
    other = softmax(logits, axis=0)
    with part("the loss"):
        expect_close(
            got[0],
            of_label.mean(),
            what="the loss",
            mistakes={
                "that is the sum: the loss is the mean over the inputs": of_label.sum(),
                "the right idea in bits: use the natural logarithm": of_label.mean() / np.log(2),
                "the sign: a loss is high where the label's probability is low": -of_label.mean(),
                "the softmax runs over the classes, and the classes are the last axis": -np.log(
                    (other * truth).sum(axis=1)
                ).mean(),
                "softmax twice: the logits go in as they are": -np.log(
                    (softmax(probs) * truth).sum(axis=1)
                ).mean(),
                "that is the probability of the label: its logarithm is asked for": (probs * truth)
                .sum(axis=1)
                .mean(),
            },
        )
    slope = (probs - truth) / 6
    with part("its slope"):
        expect_close(
            got[1],
            slope,
            what="the slope",
            mistakes={
                "the slope of the sum: the loss is a mean, so divide by the number of inputs": 6 * slope,
                "the sign: that is the way downhill": -slope,
                "only the label's logit: raising another one costs too": slope * truth,
                "the label is missing: subtract one from its probability": probs / 6,
                "that is the slope in the probabilities: go on through the softmax": -truth / probs / 6,
            },
        )


def uneven(seed):
    """Answers in three classes of unequal size, for which no two of the usual averages agree."""
    rng = np.random.default_rng(seed)
    while True:
        labels = rng.choice(3, size=90, p=[0.7, 0.2, 0.1])
        predictions = np.where(rng.random(90) < 0.6, labels, rng.choice(3, size=90, p=[0.5, 0.2, 0.3]))
        table = np.zeros((3, 3))
        np.add.at(table, (labels, predictions), 1)
        hits, there, told = np.diag(table), table.sum(axis=1), table.sum(axis=0)
        if hits.min() == 0:
            continue
        precision, recall, f1 = hits / told, hits / there, 2 * hits / (told + there)
        p, r = precision.mean(), recall.mean()
        averages = [f1.mean(), hits.sum() / 90, 2 * p * r / (p + r), f1 @ there / 90, (p + r) / 2]
        if np.diff(np.sort(averages)).min() > 1e-3 and np.abs(precision - recall).min() > 1e-3:
            return predictions, labels, precision, recall, f1, there


@question(
    "q2",
    points={"the precision": 1, "the recall": 1, "the macro F1": 1},
    hint="Count right answers by class; divide by how often it was said, and by how often it was there.",
    forbids=("first_classifier.class_scores", "first_classifier.confusion_matrix"),
    read="Which classes?",
)
def the_scores_of_the_classes_are_right(learner, seed):
    predictions, labels, precision, recall, f1, there = uneven(seed)
    of_means = 2 * precision.mean() * recall.mean() / (precision.mean() + recall.mean())
    got = expect_parts(
        learner.call("scores", predictions, labels, 3), ["the precision", "the recall", "the macro F1"]
    )
    swapped = "precision and recall are swapped: precision divides by how often the class was *said*"
    with part("the precision"):
        expect_close(got[0], precision, what="the precision", mistakes={swapped: recall})
    with part("the recall"):
        expect_close(got[1], recall, what="the recall", mistakes={swapped: precision})
    with part("the macro F1"):
        expect_close(
            got[2],
            f1.mean(),
            what="the macro F1",
            mistakes={
                "that is the accuracy, in which the frequent class decides": np.mean(predictions == labels),
                "that is the F1 of the mean precision and recall: take the F1 of each class first": of_means,
                "weighted by how frequent the classes are: in the macro F1 each counts the same": f1
                @ there
                / 90,
                "that is one F1 a class: average them": f1,
                "the mean of precision and recall: F1 is their harmonic mean": np.mean(
                    (precision + recall) / 2
                ),
            },
        )


@question(
    "q3",
    points={"`precision`": 2, "`break_even`": 1},
    hint="Of 1,000 inputs, how many alarms are right and how many are false? Then let both be equally many.",
    forbids=("first_classifier.class_scores",),
    read="Precision belongs to the mix",
)
def the_precision_in_the_field_is_right(learner, seed):
    rng = np.random.default_rng(seed)
    recall, false, share = rng.uniform(0.6, 0.95), rng.uniform(0.01, 0.05), rng.uniform(0.005, 0.03)
    right, wrong = recall * share, false * (1 - share)
    with part("`precision`"):
        expect_close(
            learner.call("precision", recall, false, share),
            right / (right + wrong),
            what="the precision",
            mistakes={
                "the false alarms come from the inputs that are *not* of the class": right / (right + false),
                "the mix is missing: there are more others than inputs of the class": recall
                / (recall + false),
                "that is the share of alarms among all inputs: how many of them are right?": right + wrong,
                "that is the share of *false* alarms": wrong / (right + wrong),
                "that is the number of right alarms by false ones: divide by all alarms": right / wrong,
            },
        )
    with part("`break_even`"):
        expect_close(
            learner.call("break_even", recall, false),
            false / (recall + false),
            what="the share at which half of the alarms are false",
            mistakes={
                "those are the odds: a share has both kinds of input below the line": false / recall,
                "the other way round: that is the share of the other inputs": recall / (recall + false),
            },
        )


def half_chosen(images, labels, count, chosen_on, tested_on):
    """Accuracy of the nearest class mean of the first half, on pixels chosen on ``chosen_on``."""
    half = len(images) // 2
    parts = {"first": slice(None, half), "second": slice(half, None), "all": slice(None)}
    here = parts[chosen_on]
    signal = np.abs((images[here] * (2 * labels[here] - 1)[:, None]).mean(axis=0))
    kept = images[:, np.argsort(-signal)[:count]]
    means = [kept[:half][labels[:half] == c].mean(axis=0) for c in (0, 1)]
    nearer = ((kept - means[0]) ** 2).sum(axis=1) > ((kept - means[1]) ** 2).sum(axis=1)
    return np.mean((nearer == labels)[parts[tested_on]])


@functools.lru_cache(maxsize=8)
def tosses(seed, images=80, size=1200):
    """Noise with labels of coins, for which every wrong way of examining gives another figure."""
    rng = np.random.default_rng(seed)
    while True:
        noise, labels = rng.normal(size=(images, size)), rng.integers(2, size=images)
        ways = [
            half_chosen(noise, labels, 15, *way)
            for way in (("first", "second"), ("all", "second"), ("second", "second"), ("first", "first"))
        ]
        if len(np.unique(np.round([*ways, 1 - ways[0]], 9))) == len(ways) + 1:
            return noise, labels, ways


@question(
    "q4",
    points=3,
    hint="Which images may take part in choosing the pixels? Only those that the classifier learns from.",
    read="The examination with known questions",
)
def the_examination_is_honest(learner, seed):
    noise, labels, (honest, on_all, on_test, on_training) = tosses(seed)
    expect_close(
        learner.call("examine", noise, labels, 15),
        honest,
        what="the accuracy",
        mistakes={
            "the pixels were chosen on all images: the test images took part": on_all,
            "the pixels were chosen on the test images": on_test,
            "that is the accuracy on the images that it learned from": on_training,
            "that is the share of errors": 1 - honest,
        },
    )


@question(
    "q5",
    points=3,
    hint="Add logarithms: take the largest exponent out of the sum first. d is the dimension of the points.",
    forbids=("first_classifier.Familiarity", "first_classifier._log_bells"),
    read="Familiar?",
)
def the_log_density_is_right_far_away_too(learner, seed):
    rng = np.random.default_rng(seed)
    known, width = rng.normal(size=(12, 3)), rng.uniform(0.3, 0.6)
    new = np.concatenate([rng.normal(size=(4, 3)), 40 + rng.normal(size=(2, 3))])
    squares = ((new[:, None] - known) ** 2).sum(axis=2)

    def bells(exponents, dimension=3, mean=12):
        top = exponents.max(axis=1)
        total = np.log(np.exp(exponents - top[:, None]).sum(axis=1)) + top
        return total - np.log(mean) - dimension / 2 * np.log(2 * np.pi * width**2)

    want = bells(-squares / (2 * width**2))
    got = as_numbers(learner.call("log_density", new, known, width), "the log-density")
    expect(
        not (got.shape == want.shape and np.allclose(got[:4], want[:4]) and np.isneginf(got[4:]).any()),
        "far away every bell is smaller than the smallest number: do not leave the logarithms",
    )
    expect(
        not (got.shape == want.shape and np.allclose(got[:4], want[:4]) and (got[4:] > want[4:] + 1).all()),
        "a small constant inside the logarithm: far away all inputs look the same",
    )
    expect_close(
        got,
        want,
        what="the log-density",
        mistakes={
            "the sum of the bells: a density is their mean": bells(-squares / (2 * width**2), mean=1),
            "the volume of the bells is missing: they do not have the mass one": want
            + 1.5 * np.log(2 * np.pi * width**2),
            "the volume belongs to one dimension: take its d-th power": bells(
                -squares / (2 * width**2), dimension=1
            ),
            "the exponent lacks its one half": bells(-squares / width**2),
            "the width goes into the exponent squared": bells(-squares / (2 * width)),
            "a distance in the exponent, where its square belongs": bells(-np.sqrt(squares) / (2 * width**2)),
            "the sign: higher is more familiar": -want,
        },
    )


@question(
    "q6",
    points={"the level": 1, "the share of right answers kept": 1},
    hint="Sort the confidences of the errors. Below which of them do nineteen in twenty lie?",
    read="The errors, and how sure it was",
)
def the_threshold_stops_the_errors(learner, seed):
    rng = np.random.default_rng(seed)
    while True:  # until the errors end well below where the answers do
        confidence = np.round(rng.beta(5, 1.2, size=400), 6)
        wrong = rng.random(400) < 0.9 * (1 - confidence) + 0.02
        top, of_all = np.sort(confidence[wrong])[-4:], np.quantile(confidence, 0.95)
        if wrong.sum() > 60 and np.diff(top).min() > 2e-3 and np.abs(top - of_all).min() > 2e-3:
            break
    parts = expect_parts(
        learner.call("threshold", confidence, wrong, 0.95), ["the level", "the share of right answers kept"]
    )
    level = as_number(parts[0], "the level")
    stopped, right = np.mean(confidence[wrong] < level), confidence[~wrong]
    with part("the level"):
        expect(
            not np.isclose(level, of_all, atol=1e-3),
            "that level stops so many of *all* answers: look at the errors alone",
        )
        expect(
            not np.isclose(level, np.quantile(confidence[wrong], 0.05), atol=1e-3),
            "that level lets nearly all errors pass: it is the other end",
        )
        expect(stopped >= 0.95, "too few of the errors lie below that level")
        lower = np.sort(confidence[wrong])[: int(np.floor(0.93 * wrong.sum()))].max()
        expect(level > lower and stopped < 0.98, "a lower level would do")
    with part("the share of right answers kept"):  # with the level as it came
        expect(0 < np.mean(right >= level) < 1, "no level that parts the answers: no share to speak of")
        expect_close(
            parts[1],
            np.mean(right >= level),
            what="the share of right answers kept",
            mistakes={
                "that is the share of all answers that is kept: of the *right* ones": np.mean(
                    confidence >= level
                ),
                "that is the share of right answers that is lost": lambda v: 1 - v,
            },
        )


@question(
    "q6",
    points={"`letters_stopped`": 1},
    hint="Which inputs was the level chosen on? What does that say of others?",
    read="Inputs from elsewhere",
)
def a_threshold_for_errors_says_nothing_of_letters(learner, seed):
    expect_choice(
        learner.value("letters_stopped"),
        "unknown",
        {
            "at least 95 %": "the level was chosen on errors among digits; letters lie anywhere",
            "about 95 %": "letters are no errors of the kind that the level was chosen on",
            "all": "some letters are read with more certainty than most digits",
        },
        what="`letters_stopped`",
    )


q7 = manual(
    "q7",
    "A density of pixels guards an X-ray station, and lets blank exposures pass: why, and what instead?",
    {
        "smooth or empty images lie near the mean (or lack grain), and so nearer to everything": 1,
        "a remedy, tested on such inputs: features, an interval of usual densities, a check of its own": 1,
    },
)
