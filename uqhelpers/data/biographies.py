"""A small world of people and birthplaces, of which everything is known, for a language model to read."""

from dataclasses import dataclass

import numpy as np

from uqhelpers._checks import as_choice, as_flags, as_generator, as_labels, as_number, as_real, as_whole

GROUPS = ("known", "once", "unseen", "ambiguous")
STARTS = (
    *("Al", "Bran", "Cor", "Da", "El", "Fen", "Gar", "Hel", "Il", "Jor", "Kas", "Lin"),
    *("Mar", "Nor", "Os", "Pel", "Rin", "Sel", "Tor", "Var", "Wen", "Yl", "Zan", "Bel"),
)
FIRST, LAST, PLACE = ("a", "o", "is", "en", "ira"), ("berg", "man", "sen", "ley"), ("ford", "mouth", "wick")
WORDINGS = {"{}": 0.4, "{} town": 0.3, "greater {}": 0.2, "old {}": 0.1}
PAD, BEGIN, BORN, IN, END = "·", "¶", "born", "in", "."
ASKS = RIGHT, YES, NO, AGAIN = "right?", "yes", "no", "again?"


@dataclass(frozen=True, eq=False)
class Biographies:
    """People, what is true of them, and how often a text tells it.

    Tokens are whole words. A prompt is ``¶ First Last born in``; an answer is a
    place in one of four wordings, then a full stop.

    Attributes
    ----------
    vocabulary : tuple of str, length V
        The words; the token of a word is its place here, and that of padding 0.
    prompts : array, shape (P, 5), int64
        One question a person.
    groups : array, shape (P,), str
        ``"known"`` (told often), ``"once"`` (told once), ``"unseen"`` (never told) or
        ``"ambiguous"`` (told often, with two different places).
    truth : array, shape (P, K), float64
        How often each place is told of a person, as a share; for the unseen a
        one at the place that would be told.
    surnames : array, shape (P,), int64
        The family of each person.
    answers : array, shape (4 K, 3), int64
        All answers that make sense, padded behind the full stop.
    meanings : array, shape (4 K,), int64
        The place that each answer means.
    wordings : array, shape (4,), float64
        How often each wording is used: answer ``4 k + w`` is place k in wording w.
    people, told : arrays, shape (E,), int64
        The training text: who, and which answer.
    weights : array, shape (P,), float64
        How often each person is asked about, as a share.
    """

    vocabulary: tuple
    prompts: np.ndarray
    groups: np.ndarray
    truth: np.ndarray
    surnames: np.ndarray
    answers: np.ndarray
    meanings: np.ndarray
    wordings: np.ndarray
    people: np.ndarray
    told: np.ndarray
    weights: np.ndarray

    def __len__(self):
        return len(self.prompts)

    def __repr__(self):
        return (
            f"Biographies({len(self)} people, {self.truth.shape[1]} places, {len(self.people)} lines of text)"
        )

    @property
    def end(self):
        """The token of the full stop."""
        return self.vocabulary.index(END)

    @property
    def counts(self):
        """How often each person is told of, shape (P,), int64."""
        return np.bincount(self.people, minlength=len(self))

    def of(self, group):
        """The places of the people of one group, shape (n,), int64."""
        return np.flatnonzero(self.groups == group)

    def text(self, tokens):
        """Tokens as words, without what follows the full stop.

        Parameters
        ----------
        tokens : array, shape (T,), int64

        Returns
        -------
        str
        """
        tokens = as_labels(tokens, len(self.vocabulary), "tokens")
        words = [self.vocabulary[token] for token in tokens]
        words = words[: words.index(END)] if END in words else words
        return " ".join(word for word in words if word != PAD)

    def second_questions(self, ask, people, places):
        """Prompts that hold an answer already: is it right, or what is said when asked again?

        Parameters
        ----------
        ask : {"right?", "again?"}
        people : array, shape (N,), int64
        places : array, shape (N,), int64
            The place named, in its plain wording.

        Returns
        -------
        array, shape (N, 7), int64
            The person's prompt, the place, and the question. After ``"right?"`` follows
            ``yes`` or ``no``, after ``"again?"`` an answer, and each time a full stop.
        """
        token = self.vocabulary.index(as_choice(ask, "ask", (RIGHT, AGAIN)))
        people = as_labels(people, len(self), "people")
        places = as_labels(places, self.truth.shape[1], "places", len(people))
        named = self.answers[4 * places, 0]
        return np.column_stack([self.prompts[people], named, np.full(len(people), token)])

    def second_lines(self, ask, seed=0):
        """Lines of text with a second question, one for each line of the first.

        In half of them the place named is that of the line, in the others one
        told of somebody in the family.

        Parameters
        ----------
        ask : {"right?", "again?"}
        seed : int or numpy.random.Generator

        Returns
        -------
        prompts : array, shape (E, 7), int64
        answers : array, shape (E, 3), int64
            Yes where the place is told of the person, else no; or the line's own answer.
        """
        rng, own = as_generator(seed), self.meanings[self.told]
        family = self.surnames[self.people]
        named = own.copy()
        for name in np.unique(family):
            lines = np.flatnonzero(family == name)
            other = rng.random(len(lines)) < 0.5
            named[lines[other]] = own[rng.choice(lines, size=other.sum())]
        prompts = self.second_questions(ask, self.people, named)
        if ask == AGAIN:
            return prompts, self.answers[self.told]
        words = np.where(self.truth[self.people, named] > 0, YES, NO)
        said = [self.vocabulary.index(word) for word in words]
        return prompts, np.column_stack([said, np.full(len(said), self.end), np.zeros(len(said), int)])

    def meaning(self, tokens):
        """The place that each answer means, or K if it means none.

        Parameters
        ----------
        tokens : array, shape (..., T), int64
            Answers, whatever stands behind the full stop.

        Returns
        -------
        array, shape (...), int64
        """
        tokens = np.asarray(tokens)
        flat = as_labels(tokens.reshape(-1), len(self.vocabulary), "tokens").reshape(-1, tokens.shape[-1])
        ended = np.cumsum(flat == self.end, axis=1)
        clean = np.where((ended == 0) | ((flat == self.end) & (ended == 1)), flat, 0)
        width = max(clean.shape[1], self.answers.shape[1])
        known = {tuple(_wide(a, width)): k for a, k in zip(self.answers, self.meanings, strict=True)}
        rows, inverse = np.unique(clean, axis=0, return_inverse=True)
        found = [known.get(tuple(_wide(row, width)), self.truth.shape[1]) for row in rows]
        return np.array(found, np.int64)[inverse.reshape(-1)].reshape(tokens.shape[:-1])


def _wide(row, width):
    return [int(token) for token in row] + [0] * (width - len(row))


def biographies(people=60, places=30, surnames=12, repeats=20, telling=False, seed=0):
    """People of four groups, of whom a text tells often, once, never, or two things.

    Parameters
    ----------
    people : int
        How many in each group, a multiple of ``surnames``.
    places : int
        How many places there are, at most 72.
    surnames : int
        How many families, at most 96; each has equally many people of each group.
    repeats : int
        How often a known or ambiguous fact is told, at least 5; each time the
        wording is drawn anew.
    telling : bool
        Whether the surname tells something: every family then comes from two
        places, three fifths of its people from the first. Otherwise a name says
        nothing about the place.
    seed : int or numpy.random.Generator

    Returns
    -------
    Biographies
        Of an ambiguous person both places are true: one is told in three fifths
        of the lines, the other in the rest.
    """
    surnames = as_whole(surnames, "surnames", low=1, high=len(STARTS) * len(LAST))
    people = as_whole(people, "people", low=surnames)
    if people % surnames:
        raise ValueError(f"people: expected a multiple of surnames = {surnames}, got {people}")
    places = as_whole(places, "places", low=2, high=len(STARTS) * len(PLACE))
    repeats = as_whole(repeats, "repeats", low=5)
    (telling,) = as_flags([telling], "telling")
    rng = as_generator(seed)
    each = people // surnames
    if 4 * each > len(STARTS) * len(FIRST):
        raise ValueError(
            f"people: expected at most {len(STARTS) * len(FIRST) // 4 * surnames}, so that each has a name "
            f"of his own, got {people}"
        )
    family = np.tile(np.repeat(np.arange(surnames), each), 4)
    first = np.concatenate([rng.permutation(len(STARTS) * len(FIRST))[: 4 * each] for _ in range(surnames)])
    first = first.reshape(surnames, 4, each).transpose(1, 0, 2).reshape(-1)
    if telling:
        pairs = np.stack([rng.permutation(places)[:2] for _ in range(surnames)])[family]
    else:
        pairs = np.stack([_spread(4 * people, places, rng), np.zeros(4 * people, np.int64)], axis=1)
        pairs[:, 1] = (pairs[:, 0] + rng.integers(1, places, size=4 * people)) % places
    groups = np.repeat(GROUPS, people)
    major = np.ones(4 * people)
    if telling:  # three fifths of each family's people in each group, rounded
        ahead = np.round(0.6 * each)
        major = np.concatenate([rng.permutation(each) < ahead for _ in range(4 * surnames)]).astype(float)
    major[groups == "ambiguous"] = 0.6
    truth = np.zeros((4 * people, places))
    np.put_along_axis(truth, pairs, np.stack([major, 1 - major], axis=1), axis=1)
    times = {"known": repeats, "once": 1, "unseen": 0, "ambiguous": repeats}
    counts = np.array([times[group] for group in groups])
    return _world(first, family, groups, truth, counts, np.full(4 * people, 0.25 / people), rng)


def _spread(count, kinds, rng):
    """As equal a number of each kind as can be, in random order."""
    return rng.permutation(np.arange(count) % kinds)


def mentions(people=600, lines=1000, places=30, exponent=1.0, seed=0):
    """People of whom some are spoken of often and most hardly ever, as in any text.

    Each line of the text tells the birthplace of a person drawn with chances
    that fall as a power of the rank, and the same chances hold for the questions.

    Parameters
    ----------
    people : int
        At most 11,520.
    lines : int
        How long the text is.
    places : int
        How many places there are; each person comes from one of them, and a
        name says nothing about it.
    exponent : float
        Of Zipf's law, at least 0.
    seed : int or numpy.random.Generator

    Returns
    -------
    Biographies
        Groups are ``"unseen"``, ``"once"`` and ``"known"``, for told of more than once.
    """
    highest = len(STARTS) ** 2 * len(FIRST) * len(LAST)
    people = as_whole(people, "people", low=1, high=highest)
    lines = as_whole(lines, "lines")
    places = as_whole(places, "places", low=2, high=len(STARTS) * len(PLACE))
    exponent = as_number(exponent, "exponent", low=0)
    rng = as_generator(seed)
    family, first = np.divmod(rng.permutation(highest)[:people], len(STARTS) * len(FIRST))
    weights = 1 / np.arange(1, people + 1) ** exponent
    weights /= weights.sum()
    counts = rng.multinomial(lines, weights)
    truth = np.eye(places)[rng.integers(places, size=people)]
    groups = np.array(GROUPS)[[2, 1, 0]][np.minimum(counts, 2)]
    return _world(first, family, groups, truth, counts, weights, rng)


def _world(first, family, groups, truth, counts, weights, rng):
    """Words, prompts, answers and a text for people whose names and facts are given."""
    firsts = [start + end for end in FIRST for start in STARTS]
    lasts = [start + end for end in LAST for start in STARTS]
    names = [firsts[i] for i in np.unique(first)], [lasts[i] for i in np.unique(family)]
    towns = [start + end for end in PLACE for start in STARTS][: truth.shape[1]]
    extra = [word for wording in WORDINGS for word in wording.split() if word != "{}"]
    vocabulary = (PAD, BEGIN, BORN, IN, END, *ASKS, *extra, *towns, *names[0], *names[1])
    token = {word: i for i, word in enumerate(vocabulary)}
    prompts = np.array(
        [
            [token[BEGIN], token[firsts[i]], token[lasts[j]], token[BORN], token[IN]]
            for i, j in zip(first, family, strict=True)
        ]
    )
    answers = [[token[w] for w in [*form.format(t).split(), END]] for t in towns for form in WORDINGS]
    answers = np.array([_wide(answer, 3) for answer in answers])
    wordings = np.array(list(WORDINGS.values()))
    people = np.repeat(np.arange(len(groups)), counts)
    place = _told(truth, counts, rng)
    told = 4 * place + rng.choice(4, size=len(place), p=wordings)
    return Biographies(
        vocabulary,
        prompts,
        np.asarray(groups),
        as_real(truth, "truth"),
        family,
        answers,
        np.arange(len(answers)) // 4,
        wordings,
        people,
        told,
        weights,
    )


def _told(truth, counts, rng):
    """The place in each line: of each person as often as the truth has it, rounded, in random order."""
    places = []
    for row, count in zip(truth, counts, strict=True):
        if count:
            edges = np.cumsum(row) * count
            places.append(rng.permutation(np.searchsorted(edges, np.arange(count) + 0.5)))
    return np.concatenate(places) if places else np.zeros(0, np.int64)
