"""Numbers and names as they are written on a card."""

from math import floor, isfinite, log10

MINUS = "−"
PERCENT = "\u00a0%"  # stays with its number


def percent(share, digits=None):
    """A share in percent, to a digit that means something."""
    if not isfinite(share):
        return "n/a"
    value = 100 * share
    if digits is None:
        digits = 0 if abs(value - round(value)) < 1e-9 else 1 if 1 <= abs(value) <= 99 else 2
    return f"{_signed(f'{value:.{digits}f}')}{PERCENT}"


def plain(value, figures=3):
    """A number to so many figures, without an exponent where that can be read."""
    if value != value:
        return "n/a"
    if not isfinite(value):
        return f"{MINUS if value < 0 else ''}∞"
    if value == 0:
        return "0"
    places = figures - 1 - floor(log10(abs(value)))
    if -4 <= places <= 7:
        return _signed(f"{value:,.{max(places, 0)}f}")
    return _signed(f"{value:.{figures - 1}e}")


def short(value):
    """A round number as it is: ticks, costs."""
    return _signed(f"{value:,.6g}")


def pair(low, high):
    """Two numbers, to the decimals that their distance asks for."""
    wide = high - low
    digits = min(max(2 - floor(log10(wide)), 0), 6) if isfinite(wide) and wide > 0 else None
    ends = [plain(end) if digits is None else _signed(f"{end:,.{digits}f}") for end in (low, high)]
    return " to ".join(ends) if wide else ends[0]


def _signed(text):
    if not text.strip("-0.,"):
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def decimals(number, scale=1.0):
    """So many decimals that an interval's half has two figures."""
    if number.low is None or number.high is None or not number.high > number.low:
        return None
    half = scale * (number.high - number.low) / 2
    return min(max(1 - floor(log10(half)), 0), 6) if isfinite(half) else None


def shown(number, as_percent=False):
    """A value and its interval, as two texts; the second is empty where there is none."""
    value, low, high = number
    if as_percent:
        digits = decimals(number, 100.0)
        digits = None if digits is None else min(digits, 3)
        write = lambda x: percent(x, digits)  # noqa: E731
    else:
        digits = decimals(number)

        def write(x):
            if digits is None or not isfinite(x) or abs(x) >= 1e7:
                return plain(x)
            return _signed(f"{x:,.{digits}f}")

    if low is None or high is None:
        return write(value), ""
    ends = [write(end) for end in (low, high)]
    if as_percent:
        ends[0] = ends[0].removesuffix(PERCENT)
    return write(value), f"{ends[0]} to {ends[1]}"


def promise_of(coverage):
    """The coverage that can be promised."""
    return percent(coverage.low) if coverage.low else "none"


def drawn(share):
    """How often something came about in draws."""
    return "none of the draws" if share == 0 else f"{percent(share)} of the draws"


def listed(names, most=6):
    """Names in a sentence; of many only the first."""
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} others"
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"
