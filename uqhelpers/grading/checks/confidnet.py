"""Checks of the exercise on failure prediction."""

import numpy as np

from uqhelpers.metrics import aupr_error, aurc, eaurc, fpr95

from .._engine import as_numbers, expect, expect_choice, expect_close, expect_parts, manual, question

AREAS = (
    "confidnet.failure_table",
    "metrics.aurc",
    "metrics.eaurc",
    "metrics.augrc",
    "metrics.risk_coverage",
    "metrics.selective._area",
)


@question(
    "q1",
    points=3,
    hint="The predicted class holds m, the true one at most as much; what do C - 2 others leave it at least?",
)
def the_range_of_a_wrong_answer_is_right(learner, seed):
    rng = np.random.default_rng(seed)
    m, classes = np.concatenate([rng.uniform(0.34, 0.49, 4), rng.uniform(0.51, 0.95, 4)]), 3
    got = expect_parts(learner.call("wrong_range", m, classes), ["the least", "the greatest"])
    least = np.maximum(0, 1 - (classes - 1) * m)
    expect_close(
        got[0],
        least,
        what="the least",
        hints={
            "below zero: a probability cannot be": 1 - (classes - 1) * m,
            "zero only where the others can hold the rest: none of them may exceed m": np.zeros(len(m)),
            "that is the average of the others, not the least that one of them can have": (1 - m)
            / (classes - 1),
        },
    )
    expect_close(
        got[1],
        np.minimum(m, 1 - m),
        what="the greatest",
        hints={
            "more than the predicted class has: then it would have been predicted": 1 - m,
            "more than the predicted class leaves: all of them sum to one": m,
            "one half bounds it always; with m known it can be said more exactly": np.full(len(m), 0.5),
        },
    )


def answers(seed, n=120):
    """Distinct confidences of which the low ones are wrong more often."""
    rng = np.random.default_rng(seed)
    confidence = rng.permutation(np.linspace(0.2, 0.99, n))
    return confidence, rng.random(n) < 0.1 + 0.7 * (1 - confidence)


@question(
    "q2",
    points=3,
    hint="Sort from the surest on; the perfect ranking of the same answers has its errors last.",
    forbids=AREAS,
)
def the_excess_area_is_right(learner, seed):
    confidence, wrong = answers(seed)
    n, rate = len(wrong), wrong.mean()
    area = aurc(-confidence, wrong)
    slipped = np.cumsum(wrong[np.argsort(-confidence)])
    perfect = np.cumsum(np.sort(wrong))
    expect_close(
        learner.call("excess", confidence, wrong),
        eaurc(-confidence, wrong),
        hints={
            "that is the AURC itself: subtract what a perfect ranking of these answers has": area,
            "the least sure come first: accept the surest first": aurc(confidence, wrong)
            - np.mean(perfect / np.arange(1, n + 1)),
            "the continuous formula for the perfect ranking: compute it for these N answers": area
            - (rate + (1 - rate) * np.log1p(-rate)),
            "divided by N, where the risk divides by the number accepted": np.mean((slipped - perfect) / n),
            "a sum over the coverages, where the mean is meant": n * eaurc(-confidence, wrong),
            "the sign: the perfect ranking has the smaller area": -eaurc(-confidence, wrong),
        },
    )


@question(
    "q3",
    points=2,
    hint="Which confidence do 95 % of the right answers reach? How many wrong ones reach it too?",
    forbids=("confidnet.failure_table", "metrics.fpr95"),
)
def the_false_positives_are_right(learner, seed):
    confidence, wrong = answers(seed, 400)
    low = np.sort(confidence[wrong])
    threshold = low[int(np.floor(0.05 * len(low)))]
    want = float(fpr95(confidence, ~wrong, "correct"))
    expect_close(
        learner.call("fpr_at_95", confidence, wrong),
        want,
        hints={
            "that is the figure with *wrong* as the positive class: here it is the right ones": float(
                fpr95(-confidence, wrong, "wrong")
            ),
            "that is the share of the wrong that is stopped: how many pass?": 1 - want,
            "the threshold of the right answers, not of the wrong ones": np.mean(
                confidence[~wrong] >= threshold
            ),
            "a share of all answers, where a share of the wrong ones is meant": want * wrong.mean(),
            "95 % of *all* answers pass there: count the right ones only": np.mean(
                confidence[wrong] >= np.sort(confidence)[int(np.floor(0.05 * len(wrong)))]
            ),
        },
        atol=1e-4,
    )


def sigmoid(logits):
    return 1 / (1 + np.exp(-logits))


@question(
    "q4",
    points=3,
    hint="Look at the shapes before the subtraction, and ask which entry of the probabilities is the target.",
    forbids=("confidnet.confidence_loss", "confidnet.true_class_probability"),
)
def the_loss_is_mended(learner, seed):
    rng = np.random.default_rng(seed)
    probs, labels = rng.dirichlet(np.ones(4), size=30), rng.integers(4, size=30)
    logits = rng.normal(size=(30, 1))
    said, truth = sigmoid(logits[:, 0]), probs[np.arange(30), labels]
    top, right = probs.max(axis=1), probs.argmax(axis=1) == labels
    squares = (said - truth) ** 2
    expect_close(
        learner.call("loss", logits, probs, labels),
        squares.mean(),
        hints={
            "(N, 1) against (N,) makes an N × N table: every answer is compared with every target": np.mean(
                (said[:, None] - truth) ** 2
            ),
            "the target is still the largest probability: it has to be that of the true class": np.mean(
                (said - top) ** 2
            ),
            "the table and the target are both still wrong": np.mean((said[:, None] - top) ** 2),
            "the target is a probability, not whether the answer was right": np.mean((said - right) ** 2),
            "a sum, where the mean is meant": squares.sum(),
            "the sigmoid is missing: a logit is no confidence": np.mean((logits[:, 0] - truth) ** 2),
            "a distance, where its square is asked for": np.abs(said - truth).mean(),
        },
    )


@question(
    "q5",
    points=3,
    hint="For each input and class the distance to the nearest known one; then own against the best other.",
    forbids=("confidnet.TrustScore",),
)
def the_trust_score_is_right(learner, seed):
    rng = np.random.default_rng(seed)
    known_labels = np.arange(45) % 3
    known = rng.normal(size=(45, 2)) + 1.5 * np.eye(3)[known_labels][:, :2]
    points, predicted = rng.normal(size=(12, 2)) + 0.5, rng.integers(3, size=12)
    distance = np.linalg.norm(points[:, None] - known, axis=-1)
    nearest = np.stack([distance[:, known_labels == c].min(axis=1) for c in range(3)], axis=1)
    middle = np.stack([known[known_labels == c].mean(axis=0) for c in range(3)])
    centres = np.linalg.norm(points[:, None] - middle, axis=-1)
    average = np.stack([distance[:, known_labels == c].mean(axis=1) for c in range(3)], axis=1)
    want = ratio(nearest, predicted)
    expect_close(
        learner.call("trust", points, predicted, known, known_labels),
        want,
        hints={
            "upside down: far from others and near to its own class is to be trusted": 1 / want,
            "squared distances: take the root": want**2,
            "the distance to the middle of each class: the nearest known input is meant": ratio(
                centres, predicted
            ),
            "the mean distance to each class: the nearest known input is meant": ratio(average, predicted),
            "the predicted class is among the others: leave it out there": nearest.min(axis=1)
            / nearest[np.arange(12), predicted],
            "the farthest of the other classes: the nearest of them is the rival": np.where(
                np.arange(3) == predicted[:, None], 0, nearest
            ).max(axis=1)
            / nearest[np.arange(12), predicted],
        },
    )


def ratio(distances, predicted):
    own = np.arange(distances.shape[1]) == predicted[:, None]
    return np.where(own, np.inf, distances).min(axis=1) / distances[own]


def costs(confidence, wrong, person):
    """Of keeping the k surest, k from 0 to N, for each answer on average."""
    slipped = np.append(0, np.cumsum(wrong[np.argsort(-confidence)]))
    return (slipped + person * np.arange(len(wrong), -1, -1)) / len(wrong)


def offers(seed):
    """A system whose errors are easy to spot, and one with few errors; then one that is best not used."""
    rng = np.random.default_rng(seed)
    many, few = np.zeros(200, bool), np.zeros(200, bool)
    many[150:] = True
    many[rng.choice(140, 3, replace=False)] = True
    few[rng.choice(np.arange(40, 200), 14, replace=False)] = True
    shuffled = rng.permutation(200)
    confidence = np.linspace(0.99, 0.3, 200)
    return [(confidence[shuffled], wrong[shuffled]) for wrong in (many, few)]


@question(
    "q6",
    points=3,
    hint="For every k: e_k mistakes slip through, N - k answers go to a person. k may be 0 and may be N.",
)
def the_price_of_a_system_is_right(learner, seed):
    systems = offers(seed)
    confidence, wrong = systems[0]
    cases = [(*systems[0], 0.3), (*systems[1], 0.3), (confidence, wrong[np.argsort(confidence)] | True, 0.2)]
    want = np.array([costs(*case).min() for case in cases])
    got = np.array([float(as_numbers(learner.call("price", *case), "the price").item()) for case in cases])
    expect(
        not (np.allclose(got[:2], want[:2]) and got[2] > want[2] + 1e-6),
        "keeping nothing is a choice too: a system that is always wrong is best not used",
    )
    kept = [np.append(0, np.cumsum(w[np.argsort(-c)])) for c, w, _ in cases]
    honest = [(np.where(c < 1 - h, h, w)).mean() for c, w, h in cases]
    expect_close(
        got,
        want,
        what="the price",
        hints={
            "the least sure are kept: keep the surest": [costs(-c, w, h).min() for c, w, h in cases],
            "that is the price of the whole lot: divide by the number of answers": want * 200,
            "the person is not paid: every answer handed over costs": [
                (k / len(w)).min() for k, (_, w, _) in zip(kept, cases, strict=True)
            ],
            "nothing is handed over: look for the best threshold": [w.mean() for _, w, _ in cases],
            "a fixed threshold trusts the confidences as probabilities: try all thresholds": honest,
        },
        atol=1e-9,
    )


@question(
    "q6", points=1, hint="Compute each figure for both systems of the text. Which one follows the price?"
)
def the_figure_that_charges_for_errors_is_chosen(learner, seed):
    for number in range(seed, seed + 3):
        (a, wrong_a), (b, wrong_b) = offers(number)
        assert aupr_error(-a, wrong_a) > aupr_error(-b, wrong_b)  # the text of the question holds
    expect_choice(
        learner.value("figure"),
        "augrc",
        {
            "auroc": "it looks at the order only: more mistakes that are easy to spot improve it",
            "aupr-error": "it rises with the number of errors, and prefers the dearer system",
            "fpr95": "it looks at the order only, and at one threshold that nobody chose",
        },
        what="`figure`",
    )


q7 = manual(
    "q7",
    "A learned confidence with a splendid AUPR-Error: what do you ask before you buy it?",
    {
        "the prevalence or number of errors, and the baseline on the same answers": 1,
        "what it was trained on, and whether the failures at work are of that kind": 1,
    },
)
