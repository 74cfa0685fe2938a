"""Checks of the exercise on language models."""

import numpy as np
from scipy.special import entr

from .._engine import expect_close, expect_parts, manual, part, question


def two_words(seed):
    """Chances of a first word, of a second after each first, and what each pair means."""
    rng = np.random.default_rng(seed)
    first, then = rng.dirichlet(np.ones(4)), rng.dirichlet(np.full(4, 0.7), size=4)
    return first, then, rng.permutation(16).reshape(4, 4) % 5


def of_answers(first, then, meaning, averaged=True, halved=False):
    """Entropy of a whole answer by the chain rule, with the usual slips to choose from."""
    second = entr(then).sum(axis=1)
    total = entr(first).sum() + ((first * second).sum() if averaged else second.mean())
    return total / 2 if halved else total


def of_meanings(first, then, meaning, counted=False):
    """Entropy of what is meant."""
    joint = np.full((4, 4), 1 / 16) if counted else first[:, None] * then
    return entr(np.bincount(meaning.ravel(), joint.ravel())).sum()


def of_wordings(first, then, meaning, left=True, plain=False):
    """Entropy of the wording, once the meaning is known."""
    joint, found = first[:, None] * then, []
    for one in np.unique(meaning):
        shares = joint[meaning == one]
        found.append((shares.sum(), entr(shares / shares.sum()).sum()))
    share, entropy = np.array(found).T
    value = entropy.mean() if plain else share @ entropy
    return value if left else -value


@question(
    "q1",
    points={"the answer": 1, "the meaning": 1, "the wording": 1},
    hint="What is left to say once the meaning is known has an entropy, too; the two add up.",
    read="What it means",
)
def an_answer_is_a_meaning_and_a_wording(learner, seed):
    case = two_words(seed)
    names = ["the answer", "the meaning", "the wording"]
    got = expect_parts(learner.call("three_entropies", *case), names)
    with part("the answer"):
        expect_close(
            got[0],
            lambda **slips: of_answers(*case, **slips),
            what="the entropy of the answer",
            mistakes={
                "the second word's entropy counts as often as its first word comes": {"averaged": False},
                "that is an average over words: the chain rule adds them up": {"halved": True},
                "that is in bits: use the natural logarithm": lambda v: v / np.log(2),
            },
        )
    with part("the meaning"):
        expect_close(
            got[1],
            lambda **slips: of_meanings(*case, **slips),
            what="the entropy of the meaning",
            mistakes={
                "not all answers are as likely: add up their probabilities": {"counted": True},
                "that is the entropy of the answer: add up what means the same first": of_answers(*case),
                "that is in bits: use the natural logarithm": lambda v: v / np.log(2),
            },
        )
    with part("the wording"):
        expect_close(
            got[2],
            lambda **slips: of_wordings(*case, **slips),
            what="the entropy of the wording",
            mistakes={
                "the other way round: an answer says more than its meaning": {"left": False},
                "each meaning counts as often as it comes": {"plain": True},
                "that is in bits: use the natural logarithm": lambda v: v / np.log(2),
            },
        )


def shares(seed):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(6, 0.6), size=5), round(float(rng.uniform(0.08, 0.3)), 3)


def confused(p, eps, others=True, mixed=True):
    """What is seen of shares when a judge errs."""
    classes = p.shape[1]
    away = (1 - p) / (classes - 1) if others else np.full(p.shape, 1 / classes)
    return (1 - eps) * p + eps * away if mixed else p


def cleared(q, eps, others=True, divided=True):
    """The shares behind what is seen."""
    classes = q.shape[1]
    low = eps / (classes - 1) if others else eps / classes
    return (q - low) / ((1 - eps - low if others else 1 - eps) if divided else 1)


@question(
    "q2",
    points={"the entropy seen": 2, "the entropy mended": 1},
    hint="How often is a group named: by samples that belong there, and by those that were put there?",
    read="Ten answers instead of all",
)
def an_erring_judge_adds_entropy_that_can_be_taken_off(learner, seed):
    p, eps = shares(seed)
    with part("the entropy seen"):
        expect_close(
            learner.call("seen", p, eps),
            lambda **slips: entr(confused(p, eps, **slips)).sum(axis=1),
            what="the entropy seen",
            mistakes={
                "a wrong group is one of the OTHERS": {"others": False},
                "that is the entropy without errors": {"mixed": False},
                "entropies do not mix like shares: mix the shares first": (
                    (1 - eps) * entr(p).sum(axis=1) + eps * np.log(p.shape[1])
                ),
            },
        )
    q = confused(p, eps)
    with part("the entropy mended"):
        expect_close(
            learner.call("mended_entropy", q, eps),
            lambda **slips: entr(np.maximum(cleared(q, eps, **slips), 0)).sum(axis=1),
            what="the mended entropy",
            rtol=1e-5,
            mistakes={
                "a wrong group was one of the OTHERS": {"others": False},
                "what is left has to be scaled up again": {"divided": False},
                "that is the entropy seen: take the errors off the shares first": entr(q).sum(axis=1),
            },
        )


def drawn(seed):
    """Samples of one prompt: their log probabilities, which text each is, what it means."""
    rng = np.random.default_rng(seed)
    p, groups = rng.dirichlet(np.full(8, 0.8)), rng.permutation(8) % 3
    while True:
        texts = rng.choice(8, size=14, p=p)
        if len(set(groups[texts])) == 3 and len(set(texts)) < 9:
            return np.log(p[texts]), texts, groups[texts]


def weighted(log_probs, texts, groups, once=True, scaled=True, mean=False):
    """Likelihood-weighted semantic entropy, with the usual slips to choose from."""
    first = np.unique(texts, return_index=True)[1] if once else np.arange(len(texts))
    mass = np.array([np.exp(log_probs[first])[groups[first] == g].sum() for g in np.unique(groups)])
    mass = mass / mass.sum() if scaled else mass
    return -np.log(mass).mean() if mean else -(mass * np.log(mass)).sum()


@question(
    "q3",
    points=3,
    hint="How often a text was drawn is in its probability already. And an entropy is an average by share.",
    forbids=("language_models.semantic_entropy",),
    read="Break it: a formula as it is found",
)
def a_text_counts_once_and_a_meaning_by_its_share(learner, seed):
    case = drawn(seed)
    expect_close(
        learner.call("mended", *case),
        lambda **slips: weighted(*case, **slips),
        what="the entropy",
        mistakes={
            "a text that was drawn twice is counted twice: its probability is that of all its draws": {
                "once": False
            },
            "the groups' probabilities have to sum to 1 before they are an entropy's": {"scaled": False},
            "an entropy weighs each group by its share: no plain mean over groups": {"mean": True},
        },
    )


def told(seed):
    rng = np.random.default_rng(seed)
    counts = rng.permutation(np.r_[np.zeros(5), np.ones(9), np.full(6, 2), rng.integers(3, 9, size=8)])
    return counts.astype(int), int(rng.integers(4, 12)), round(float(rng.uniform(0.2, 0.8)), 2)


def about_once(counts, K, forget, twice=2, level=2):
    return twice * np.sum(counts == level) / counts.sum()


def errors(counts, K, forget, lucky=True, forgotten=True, twice=2, level=2):
    missing = np.sum(counts == 1) / counts.sum()
    lost = forget * about_once(counts, K, forget, twice, level) if forgotten else 0
    return ((1 - 1 / K) if lucky else 1) * (missing + lost)


@question(
    "q4",
    points={"the share": 2, "the errors": 1},
    hint="Told of once in N lines, and again in the next, is told of twice in N + 1: either may be the last.",
    forbids=("language_models.good_turing",),
    read="How much was never told",
)
def what_was_told_once_is_foretold_by_what_was_told_twice(learner, seed):
    case = told(seed)
    got = expect_parts(learner.call("half_known", *case), ["the share", "the errors"])
    with part("the share"):
        expect_close(
            got[0],
            lambda **slips: about_once(*case, **slips),
            what="the share",
            mistakes={
                "each of those told twice fills two lines": {"twice": 1},
                "those told once foretell the NEVER told: go one level up": {"level": 1, "twice": 1},
                "a share of the lines, not of the people": lambda v: v * case[0].sum() / len(case[0]),
            },
        )
    with part("the errors"):
        expect_close(
            got[1],
            lambda **slips: errors(*case, **slips),
            what="the error rate",
            mistakes={
                "a guess is right now and then: one time in K": {"lucky": False},
                "what was told once and is forgotten is guessed, too": {"forgotten": False},
                "each of those told twice fills two lines": {"twice": 1},
            },
        )


def graded(seed):
    """Beliefs for which silence, one name and two names are each best somewhere."""
    rng = np.random.default_rng(seed)
    while True:
        p = rng.dirichlet(np.full(5, 0.5), size=8)
        wrong, half = -round(float(rng.uniform(0.5, 1.2)), 2), round(float(rng.uniform(0.4, 0.7)), 2)
        found = [policy(p, wrong, half, **s)[0] for s in ({}, {"charged": False}, {"both": False})]
        if len(set(found[0])) == 3 and all((a != b).any() for i, a in enumerate(found) for b in found[:i]):
            return p, wrong, half


def policy(p, wrong, half, charged=True, both=True, full=False):
    """How many names are best, and the points expected."""
    top = -np.sort(-p, axis=1)[:, :2]
    two = top.sum(axis=1) if both else top[:, 0]
    price = wrong if charged else 0.0
    worth = np.stack(
        [
            np.zeros(len(p)),
            top[:, 0] + price * (1 - top[:, 0]),
            (1.0 if full else half) * two + price * (1 - two),
        ]
    )
    return worth.argmax(axis=0).astype(float), worth.max(axis=0)


@question(
    "q5",
    points={"how many": 1, "the points": 2},
    hint="Write down what each of the three earns on average, then take the largest.",
    read="What a grade teaches",
)
def two_names_may_be_worth_more_than_one_or_none(learner, seed):
    case = graded(seed)
    got = expect_parts(learner.call("best_reply", *case), ["how many", "the points"])
    slips = {
        "a wrong answer costs points, too": {"charged": False},
        "of two names either may be right: add up their probabilities": {"both": False},
        "two names earn less than a full point": {"full": True},
    }
    for i, name in enumerate(["how many", "the points"]):
        with part(name):
            expect_close(got[i], lambda i=i, **s: policy(*case, **s)[i], slips, what=name)


def committee(seed):
    return np.random.default_rng(seed).dirichlet(np.full(4, 0.6), size=5)


def twice_asked(probs, same=True, sums=False):
    """The joint law of two answers in a row."""
    joint = np.einsum("sm,sk->mk", probs, probs) / (1 if sums else len(probs))
    mean = probs.mean(axis=0)
    return joint if same else np.outer(mean, mean)


def information(probs, base=1.0, halved=False, once=False):
    """What the first answer tells about the second."""
    joint = twice_asked(probs)
    value = (1 if once else 2) * entr(probs.mean(axis=0)).sum() - entr(joint).sum()
    return (value / 2 if halved else value) / base


@question(
    "q6",
    points={"the table": 2, "the information": 1},
    hint="One model is drawn and answers both times. Given the model the answers are independent.",
    read="Further: asking once more",
)
def a_model_betrays_itself_by_its_first_answer(learner, seed):
    probs = committee(seed)
    got = expect_parts(learner.call("asked_twice", probs), ["the table", "the information"])
    with part("the table"):
        expect_close(
            got[0],
            lambda **slips: twice_asked(probs, **slips),
            what="the table",
            mistakes={
                "that is as if another model answered the second time": {"same": False},
                "the table's entries have to sum to 1": {"sums": True},
                "only its diagonal: the two answers may differ": lambda t: np.diag(np.diag(t)),
            },
        )
    with part("the information"):
        expect_close(
            got[1],
            lambda **slips: information(probs, **slips),
            what="the information",
            mistakes={
                "that is in bits: use the natural logarithm": {"base": np.log(2)},
                "both answers have their own entropy: add it twice": {"once": True},
                "that is half of the information: take all of it": {"halved": True},
                "that is what an answer tells about the MODEL, which is more": entr(probs.mean(axis=0)).sum()
                - entr(probs).sum(axis=1).mean(),
            },
        )


q7 = manual(
    "q7",
    "Semantic entropy of ten samples parts right from wrong with an AUROC of .9 on trivia: what was shown?",
    {
        "two kinds: what is firmly and wrongly believed; several right answers beside narrow guesses": 1,
        "measure by kind of question, in the mixture that will be asked, with costs": 1,
    },
)
