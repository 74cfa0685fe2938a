"""What the numbers of a card may not be used for: it depends on what was given, and on what came out."""

import numpy as np

from uqhelpers.report.costs import unseen
from uqhelpers.report.words import listed, pair, percent, plain, promise_of, short

FEW = 1000  # inputs
SMALL = 30  # inputs of a class or a subgroup
UNUSUAL = 0.05  # adjusted p-values below this are said to be beyond chance


def of_classification(evidence):
    """The sentences of a classifier's card."""
    numbers, count = evidence.numbers, evidence.count
    said = [
        general(),
        few(count, reach(numbers["accuracy"])),
        rare_classes(evidence),
        confidences(evidence),
        groups(evidence),
        strange(evidence),
        chosen_coverage(evidence),
        costs(evidence),
        unseen_errors(evidence),
    ]
    if not np.isfinite(numbers["negative log-likelihood"].value):
        said.append(
            "The negative log-likelihood is infinite: a class that was given probability 0 came true. "
            "Where a loss is logarithmic, this model may not be used as it is."
        )
    return [sentence for sentence in said if sentence]


def of_regression(evidence):
    """The sentences of a regressor's card."""
    low, high = evidence.mean.min(), evidence.mean.max()
    said = [
        general(),
        few(evidence.count, None),
        spread(evidence),
        average_coverage(evidence),
        groups(evidence),
        f"Nothing is known about predictions outside {pair(low, high)}{_unit(evidence)}, and nothing about "
        "inputs unlike these: none were given.",
    ]
    return [sentence for sentence in said if sentence]


def _unit(evidence):
    return f" {evidence.unit}" if evidence.unit else ""


def reach(number):
    """Half of an interval."""
    return None if number.low is None else (number.high - number.low) / 2


def general():
    return (
        "Every interval covers one thing: that these inputs were drawn by chance, each on its own, from "
        "where the model will be used. It knows nothing of wrong labels, of a world that changes, of "
        "several inputs from one source. If a model, a temperature or a threshold was chosen on these same "
        "inputs, all figures are too good."
    )


def few(count, half):
    if count >= FEW:
        return None
    known = f": its accuracy is known to {plain(100 * half, 2)} points either way" if half else ""
    rare = f": of what happens once in {count:,} times, about one in three such cards sees nothing"
    rare = rare if count >= SMALL else ""
    return f"The card rests on {count:,} inputs{known}. Rare failures do not show{rare}."


def rare_classes(evidence):
    seen = evidence.matrix.sum(axis=1)
    names = [name for name, number in zip(evidence.class_names, seen, strict=True) if number < SMALL]
    if not names:
        return None
    return (
        f"Fewer than {SMALL} inputs stand for {listed(names)}: what the card says of "
        f"{'it' if len(names) == 1 else 'these classes'} is hardly more than an anecdote."
    )


def confidences(evidence):
    error = evidence.numbers["expected calibration error"].value
    band = evidence.numbers["expected calibration error if calibrated"]
    if error > band.high:
        gap = evidence.numbers["calibration gap"]
        way = ", and on average the model is too sure" if gap.low > 0 else ""
        way = ", and on average the model is not sure enough" if gap.high < 0 else way
        return (
            f"The confidences are not frequencies: their calibration error, {percent(error)}, is beyond "
            f"what counting alone explains (up to {percent(band.high)}){way}. A threshold that was computed "
            "from costs, or a sum of probabilities, inherits that."
        )
    return (
        f"A calibration error of {percent(error)} is no more than counting alone explains on "
        f"{evidence.count:,} inputs. It does not show that the confidences are right in each class, in each "
        "subgroup, or for any one input."
    )


def groups(evidence):
    judged = evidence.judged
    if not judged:
        return (
            "No subgroups were given: the card does not say for whom the model works worse, and may not be "
            "quoted as if it did."
        )
    count = len(judged)
    sentence = (
        f"Only the {count} subgroups that were given were looked at, and not where they overlap. One of "
        f"them always looks worst, and one interval in {plain(1 / (1 - evidence.level), 2)} misses by "
        "chance: a difference counts if its adjusted p-value is small. A large one does not show that "
        "there is none."
    )
    small = [group.name for group in judged if group.count < SMALL]
    if small:
        sentence += f" Fewer than {SMALL} inputs: {listed(small)}."
    return sentence


def strange(evidence):
    if not evidence.strange:
        return (
            "No strange inputs were given: the card does not say what the model does with inputs unlike "
            "these."
        )
    return (
        f"How well strange inputs are found was measured on {listed(list(evidence.strange))} alone, and on "
        "as many as there were: other kinds may pass unnoticed."
    )


def chosen_coverage(evidence):
    found = evidence.numbers["coverage at risk"]
    if not 0 < found.value < 1 and found.low == found.value:
        return None
    return (
        f"The coverage of {percent(found.value)} at a risk of {percent(evidence.risk)} was found on these "
        f"same inputs. What may be promised, with {percent(evidence.level)} confidence, is "
        f"{promise_of(found)}."
    )


def costs(evidence):
    if evidence.bill is None:
        return (
            "No costs were given: to act on the likeliest class is a habit, and right only where all "
            "errors cost the same."
        )
    return (
        "The costs are taken as given, and the same for everybody. Decisions that follow from them are the "
        "cheapest only as far as the probabilities are calibrated, and where classes are as frequent as "
        "here."
    )


def unseen_errors(evidence):
    """Errors that cost something and were not met, and what they could add."""
    bill = evidence.bill
    errors = [] if bill is None else unseen(bill, evidence.labels, evidence.level)
    if not errors:
        return None
    act, true, count, rate, added = errors[0]
    cost = evidence.numbers["cost"]
    others = len(errors) - 1
    more = f" Not seen either: {others} other costly {'kind' if others == 1 else 'kinds'} of error."
    return (
        f"None of the {count:,} inputs whose true class is {evidence.class_names[true]} got "
        f"“{bill.acts[act]}”, at the price of {short(bill.matrix[act, true])}: the cost of "
        f"{plain(cost.value)} holds nothing of that error. Its rate can be as high as {percent(rate)} "
        f"(upper end of the exact {percent(evidence.level)} interval), which would add {plain(added)} to "
        f"the cost; its interval, up to {plain(cost.high)}, counts with that."
        f"{more if others else ''}"
    )


def spread(evidence):
    if evidence.ends is None:
        return (
            "Neither a scale nor intervals were given: the errors are those of all inputs together, and no "
            "single prediction says how far off it may be."
        )
    if evidence.gaussian:
        text = "The scale was read as that of a Gaussian"
        if not evidence.given_ends:
            text += ", and the intervals are its own"
        return (
            f"{text}: where the histogram of places is not flat, so are neither its tails nor its "
            "likelihood to be trusted."
        )
    return None


def average_coverage(evidence):
    if evidence.ends is None:
        return None
    found, promised = evidence.numbers["coverage"], evidence.promised
    verdict = (
        "holds"
        if found.low <= promised <= found.high
        else ("falls short" if found.high < promised else "is exceeded")
    )
    rest = "on average over all inputs: it promises nothing for a kind of input, and nothing for one."
    if verdict == "holds":
        return f"The promised coverage of {percent(promised)} agrees with what was seen, {rest}"
    return f"The promised coverage of {percent(promised)} {verdict}: seen were {percent(found.value)}, {rest}"
