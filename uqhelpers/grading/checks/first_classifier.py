"""Checks of the exercise on the first classifier."""

import numpy as np

from .._engine import expect_choice, expect_close, expect_parts, manual, part, question


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def in_logits(logits, labels, prices, heat, priced=True, inside=True, outside=True, mean=True, truth=True):
    """The slope of the priced, cooled loss in the logits, with the usual slips to choose from."""
    probs = softmax(logits / heat if inside else logits)
    gap = probs - (np.eye(logits.shape[1])[labels] if truth else 0)
    gap = gap * (prices[labels][:, None] if priced else 1) / (heat if outside else 1)
    return gap / (len(labels) if mean else 1)


def in_temperature(logits, labels, prices, heat, sign=-1, power=2, priced=True, mean=True):
    """The slope of the same loss in the temperature."""
    gap = softmax(logits / heat) - np.eye(logits.shape[1])[labels]
    each = (gap * logits).sum(axis=1) * (prices[labels] if priced else 1)
    return sign * each.sum() / heat**power / (len(labels) if mean else 1)


@question(
    "q1",
    points={"the slope in the logits": 2, "the slope in the temperature": 1},
    hint="Put z = f / T. The page has the slope in z; f and T come in by the chain rule.",
    forbids=("metrics.from_logits", "metrics.apply_temperature", "metrics.negative_log_likelihood"),
    read="What it takes",
)
def prices_and_a_temperature_reach_the_slope(learner, seed):
    rng = np.random.default_rng(seed)
    case = (
        2 * rng.normal(size=(6, 4)),
        rng.integers(4, size=6),
        rng.uniform(2, 6, size=4),
        rng.uniform(1.5, 3),
    )
    names = ["the slope in the logits", "the slope in the temperature"]
    got = expect_parts(learner.call("slopes", *case), names)
    with part(names[0]):
        expect_close(
            got[0],
            lambda **slips: in_logits(*case, **slips),
            what=names[0],
            mistakes={
                "the prices are missing: each input pays by its label": {"priced": False},
                "the probabilities are those of the cooled logits, f / T": {"inside": False},
                "the chain rule: f moves z = f / T by a share of 1 / T only": {"outside": False},
                "the slope of the sum: the loss is a mean over the inputs": {"mean": False},
                "the label is missing: subtract one from its probability": {"truth": False},
                "the sign: that is the way downhill": np.negative,
            },
        )
    with part(names[1]):
        expect_close(
            got[1],
            lambda **slips: in_temperature(*case, **slips),
            what=names[1],
            mistakes={
                "the sign: a higher temperature shrinks the logits": {"sign": 1},
                "the derivative of f / T in T has the square of T below": {"power": 1},
                "the prices are missing: each input pays by its label": {"priced": False},
                "the slope of the sum: the loss is a mean over the inputs": {"mean": False},
            },
        )


def two_classifiers(seed):
    """Answers of two classifiers that are often right together, the first one more often."""
    rng = np.random.default_rng(seed)
    while True:
        easy = rng.random(400) < 0.85
        a, b = (easy & (rng.random(400) < 0.99) | (rng.random(400) < share) for share in (0.5, 0.3))
        if 0.02 < (ahead := a.mean() - b.mean()) < 0.1:
            images = (2 * spread(a, b, single=True) / ahead) ** 2
            if abs(images - round(images)) > 1e-6:  # else rounding decides what the next whole number is
                return a, b


def spread(a, b, same=True, centred=True, root=True, single=False):
    """The standard error of the difference of two accuracies, with the usual slips to choose from."""
    gap = a.astype(float) - b
    each = np.mean(gap**2) - (np.mean(gap) ** 2 if centred else 0)
    if not same:
        each = a.mean() * (1 - a.mean()) + b.mean() * (1 - b.mean())
    each = each / (1 if single else len(a))
    return np.sqrt(each) if root else each


def needed(a, b, errors=2, squared=True, **slips):
    """How many images until the difference is so many standard errors."""
    ratio = errors * spread(a, b, single=True, **slips) / (a.mean() - b.mean())
    return np.ceil(ratio**2 if squared else ratio)


@question(
    "q2",
    points={"`standard_error`": 2, "`images_needed`": 1},
    hint="An image counts 1, 0 or -1 for the difference. What is the variance of that number?",
    read="How good is it?",
)
def shared_images_make_the_difference_surer(learner, seed):
    a, b = two_classifiers(seed)
    with part("`standard_error`"):
        expect_close(
            learner.call("standard_error", a, b),
            lambda **slips: spread(a, b, **slips),
            what="the standard error",
            mistakes={
                "that is as if each had images of its own: most images count for neither": {"same": False},
                "the mean square is not yet the variance: the difference itself, squared, goes off": {
                    "centred": False
                },
                "that is the variance: take its root": {"root": False},
                "that is the spread of one image: the mean of n has less": {"single": True},
            },
        )
    with part("`images_needed`"):
        expect_close(
            learner.call("images_needed", a, b),
            lambda **slips: needed(a, b, **slips),
            what="the number of images",
            rtol=1e-9,
            mistakes={
                "one standard error is not two": {"errors": 1},
                "the standard error falls with the root of the number: square the ratio": {"squared": False},
                "that is as if each had images of its own: these are shared": {"same": False},
            },
        )


def by_two(r, f, r2, f2, share, each=True, rule="both"):
    """Recall and false alarms of two readers together."""
    if rule == "either":
        return r + r2 - r * r2, f + f2 - f * f2
    return (r * r2, f * f2) if each else (r * r2, f)


def right_alarms(case, mixed=True, **slips):
    recall, false = by_two(*case, **slips)
    share = case[-1] if mixed else 0.5
    return recall * share / (recall * share + false * (1 - share))


def enough(r, f, wanted, odds=False, other=False):
    """How frequent the class has to be for so many of the alarms to be right."""
    class_, others = wanted * f, (1 - wanted) * r
    if odds:
        return class_ / others
    return (others if other else class_) / (class_ + others)


@question(
    "q3",
    points={"the recall": 1, "the precision": 1, "`share_needed`": 1},
    hint="Of 1,000 inputs, how many right alarms does the first reader pass on, and how many false ones?",
    forbids=("first_classifier.class_scores",),
    read="Precision belongs to the mix",
)
def a_second_reader_buys_precision_with_recall(learner, seed):
    rng = np.random.default_rng(seed)
    r, r2 = rng.uniform(0.7, 0.95, size=2)
    f, f2 = rng.uniform(0.02, 0.08), rng.uniform(0.1, 0.3)
    case = r, f, r2, f2, rng.uniform(0.005, 0.03)
    wanted = rng.uniform(0.6, 0.9)

    def answer():
        return expect_parts(learner.call("two_readers", *case), ["the recall", "the precision"])

    with part("the recall"):
        expect_close(
            answer()[0],
            lambda **slips: by_two(*case, **slips)[0],
            what="the recall",
            mistakes={
                "that is found by one of the two: it is reported only if both find it": {"rule": "either"},
                "that is the first reader alone": r,
            },
        )
    with part("the precision"):
        expect_close(
            answer()[1],
            lambda **slips: right_alarms(case, **slips),
            what="the precision",
            mistakes={
                "that is for alarms of one of the two: it is reported only if both find it": {
                    "rule": "either"
                },
                "the second reader sees the false alarms of the first, too, and stops some": {"each": False},
                "the mix is missing: there are more others than inputs of the class": {"mixed": False},
                "that is the share of *false* alarms": lambda v: 1 - v,
                "that is the first reader alone": right_alarms((r, f, 1.0, 1.0, case[-1])),
            },
        )
    with part("`share_needed`"):
        expect_close(
            learner.call("share_needed", r, f, wanted),
            lambda **slips: enough(r, f, wanted, **slips),
            what="the share",
            mistakes={
                "those are the odds: a share has both kinds of input below the line": {"odds": True},
                "the other way round: that is the share of the other inputs": {"other": True},
                "that is where half of the alarms are right": enough(r, f, 0.5),
            },
        )


def moved_mix(seed):
    """Probabilities under an old mix, for inputs that come in another."""
    rng = np.random.default_rng(seed)
    old, new = np.array([0.6, 0.3, 0.1]), rng.dirichlet([2, 3, 5])
    labels = rng.choice(3, size=150, p=new)
    likelihood = np.exp(1.2 * (rng.normal(size=(150, 3)) + 1.2 * np.eye(3)[labels]))  # up to a factor
    probs = likelihood * old
    return probs / probs.sum(axis=1, keepdims=True), old, 6


def iterated(probs, old, rounds, twice=False, hard=False, divided=True, start=None, early=0):
    """Saerens' iteration, with the usual slips to choose from."""
    new = np.array(old if start is None else start, float)
    base = probs
    for _ in range(rounds - early):
        weighted = base * new / (old if divided else 1)
        weighted = weighted / weighted.sum(axis=1, keepdims=True)
        base = weighted if twice else probs
        votes = np.eye(len(old))[weighted.argmax(axis=1)]
        new = (votes if hard else weighted).mean(axis=0)
    return new


@question(
    "q4",
    points=3,
    hint="What is each round to start from? And what says more about the mix: answers, or probabilities?",
    forbids=("first_classifier.in_another_mix",),
    read="Another mix, another price",
)
def the_new_mix_is_found_without_a_label(learner, seed):
    case = moved_mix(seed)
    expect_close(
        learner.call("new_shares", *case),
        lambda **slips: iterated(*case, **slips),
        what="the new shares",
        mistakes={
            "the correction is still applied to what has been corrected: start each round from `probs`": {
                "twice": True
            },
            "still the answers are counted: the mean of the probabilities loses nothing": {"hard": True},
            "the old shares are still in the probabilities: divide them out": {"divided": False},
            "the first round starts from the old shares": {"start": np.full(3, 1 / 3)},
            "one round too few": {"early": 1},
            "these are the old shares: nothing was learned from the inputs": case[1],
        },
    )


def price_list(seed):
    """Probabilities and prices for which every known mistake gives other answers."""
    rng = np.random.default_rng(seed)
    while True:
        probs = rng.dirichlet([0.7] * 4, size=60)
        prices = rng.uniform(1, 9, size=(4, 4)) * (1 - np.eye(4))
        case = probs, prices, rng.uniform(1.2, 2.0)
        slips = [{}, {"turned": True}, {"human": False}, {"blind": True}]
        found = [decided(*case, **slip) for slip in slips]
        passed = np.mean(found[0] < 0)
        if 0.15 < passed < 0.6 and all((a != b).any() for i, a in enumerate(found) for b in found[:i]):
            return case


def decided(probs, prices, passing, turned=False, human=True, blind=False):
    """Answers that are cheapest to expect; -1 for the human."""
    expected = probs @ (prices.T if turned else prices)
    answers = probs.argmax(axis=1) if blind else expected.argmin(axis=1)
    least = expected[np.arange(len(probs)), answers]
    return np.where((least > passing) & human, -1, answers)


def billed(probs, prices, passing, total=False, human=True, turned=False):
    expected = (probs @ (prices.T if turned else prices)).min(axis=1)
    each = np.minimum(expected, passing) if human else expected
    return each.sum() if total else each.mean()


@question(
    "q5",
    points={"the answers": 2, "the bill": 1},
    hint="For one input: what does answering 2 cost, if the probabilities are right? And asking the human?",
    read="Another mix, another price",
)
def the_cheapest_answer_may_be_none(learner, seed):
    case = price_list(seed)
    got = expect_parts(learner.call("decide", *case), ["the answers", "the bill"])
    with part("the answers"):
        expect_close(
            got[0],
            lambda **slips: decided(*case, **slips),
            what="the answers",
            mistakes={
                "rows of the list are the truth, columns the answer": {"turned": True},
                "nobody asks the human, who is sometimes the cheapest": {"human": False},
                "that is the most probable class: take the cheapest answer": {"blind": True},
            },
        )
    with part("the bill"):
        expect_close(
            got[1],
            lambda **slips: billed(*case, **slips),
            what="the bill",
            mistakes={
                "that is the sum: the bill is a mean over the inputs": {"total": True},
                "what goes to the human costs the human's price, no more": {"human": False},
                "rows of the list are the truth, columns the answer": {"turned": True},
            },
        )


def some_errors(seed):
    """Confidences for which every known mistake gives another level, and a few of them."""
    rng = np.random.default_rng(seed)
    while True:
        confidence = np.round(rng.beta(5, 1.5, size=400), 6)
        wrong = rng.random(400) < 0.25 * (1 - confidence) + 0.05
        case = confidence, wrong, int(rng.integers(82, 92))
        slips = [{}, {"extra": 0}, {"upper": False}, {"everything": True}, {"plain": True}]
        levels = np.sort([level_of(*case, **slip) for slip in slips])
        if 30 <= wrong.sum() <= 60 and np.isfinite(levels).all() and np.diff(levels).min() > 1e-3:
            few = np.cumsum(wrong) <= 7
            return case, (confidence[few], wrong[few], 95)


def level_of(confidence, wrong, percent, extra=1, upper=True, everything=False, plain=False):
    """The confidence that a new error exceeds seldom enough; infinite if none does."""
    among = np.sort(confidence if everything else confidence[wrong])
    share = percent if upper else 100 - percent
    if plain:
        return np.quantile(among, share / 100)
    k = -((len(among) + extra) * share // -100)
    return among[k - 1] if k <= len(among) else np.inf


def fewest(percent, late=0):
    """How few errors have a rank that promises as much."""
    n = 1
    while -((n + 1) * percent // -100) > n:
        n += 1
    return n + late


@question(
    "q6",
    points={"`level`": 1, "`errors_needed`": 1},
    hint="A new error is as likely to fall into any of the n + 1 gaps between n old ones.",
    forbids=("conformal.rank", "conformal.quantile", "conformal.SplitClassifier"),
    read="The errors, and how sure it was",
)
def few_errors_promise_little(learner, seed):
    rng = np.random.default_rng(seed)
    many, few = some_errors(seed)
    with part("`level`"):
        expect_close(
            learner.call("level", *many),
            lambda **slips: level_of(*many, **slips),
            what="the level",
            mistakes={
                "one rank too low: the new error has n + 1 gaps": {"extra": 0},
                "that level lets nearly all errors pass: it is the other end": {"upper": False},
                "that level stops so many of *all* answers: look at the errors alone": {"everything": True},
                "a plain quantile promises too much: take the error of the right rank": {"plain": True},
            },
        )
        expect_close(
            learner.call("level", *few),
            lambda **slips: level_of(*few, **slips),
            what="the level for seven errors and 95 %",
            mistakes={
                "seven errors cannot promise 95 %: no level is honest": {"extra": 0},
                "a plain quantile promises too much: take the error of the right rank": {"plain": True},
            },
        )
    share = int(rng.choice([80, 90, 95, 96, 98]))
    with part("`errors_needed`"):
        expect_close(
            learner.call("errors_needed", share),
            lambda **slips: fewest(share, **slips),
            what="the number of errors",
            mistakes={
                "one too many: n old errors leave n + 1 gaps": {"late": 1},
                "one too few: even the highest of them does not promise as much": {"late": -1},
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
    "Retrained on equal parts, tested on equal parts, sold for rare cases: what will the clinic see?",
    {
        "precision belongs to the mix: at the clinic's share the false alarms outnumber the right ones": 1,
        "what to do: weigh the old network's probabilities by share and price, test in the clinic's mix": 1,
    },
)
