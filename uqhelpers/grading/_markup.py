"""The little Markdown that questions and messages are written in, as HTML without script.

Formulas become MathML, which a browser shows by itself. Everything is escaped
first: what a student wrote can become code or emphasis, and nothing else.
"""

import html
import re

LATIN = """alpha beta gamma delta varepsilon epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau
phi chi psi omega Gamma Delta Theta Lambda Pi Sigma Phi Psi Omega"""
LETTERS = dict(zip(LATIN.split(), "αβγδεϵζηθκλμνξπρστφχψωΓΔΘΛΠΣΦΨΩ", strict=True))
SIGNS = {
    "top": "⊤", "sim": "∼", "times": "×", "cdot": "·", "dots": "…", "ldots": "…", "mid": "∣", "to": "→",
    "ge": "≥",
    "geq": "≥",
    "le": "≤", "leq": "≤", "ne": "≠", "neq": "≠", "odot": "⊙", "infty": "∞", "partial": "∂",
    "approx": "≈", "propto": "∝", "in": "∈", "sum": "∑", "prod": "∏", "int": "∫", "nabla": "∇", "pm": "±",
    "|": "‖", "%": "%", "{": "{", "}": "}", "_": "_", "&": "&", "langle": "⟨", "rangle": "⟩", "ell": "ℓ",
}  # fmt: skip
SPACES = {",": 0.17, ";": 0.28, ":": 0.22, "!": -0.17, "quad": 1, "qquad": 2, " ": 0.25}
LARGE = ("sum", "prod", "lim", "max", "min", "argmax", "argmin")
IGNORED = ("left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr", "displaystyle", "limits")
WORDS = (
    "log",
    "exp",
    "max",
    "min",
    "lim",
    "softmax",
    "softplus",
    "argmax",
    "argmin",
    "det",
    "tr",
    "Var",
    "KL",
)
ACCENTS = {"hat": "^", "tilde": "~", "bar": "¯"}
TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[{}^_]|[0-9]+(?:\.[0-9]+)?|\s+|.", re.DOTALL)


class Formula:
    """LaTeX of the kind that the book's questions hold, as MathML."""

    def __init__(self, text):
        self.tokens = [token for token in TOKEN.findall(text) if not token.isspace()]
        self.at = 0

    def mathml(self, block=False):
        display = ' display="block"' if block else ""
        return f"<math{display}><mrow>{self.row()}</mrow></math>"

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self):
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else ""

    def row(self):
        """Up to a closing brace, or the end."""
        found = []
        while self.peek() not in ("", "}"):
            found.append(self.scripted())
        return "".join(found)

    def scripted(self):
        """One thing with what stands below and above it."""
        large = self.peek().lstrip("\\") in LARGE
        base, scripts = self.one(), {}
        while self.peek() in ("^", "_"):
            sign = self.take()
            scripts[sign] = self.one()
        tag = {"_": "sub", "^": "sup", "_^": "subsup"}.get("".join(sorted(scripts, reverse=True)), "")
        if large and scripts:
            tag = {"sub": "under", "sup": "over", "subsup": "underover"}[tag]
        inside = base + "".join(scripts[key] for key in sorted(scripts, reverse=True))
        return f"<m{tag}>{inside}</m{tag}>" if scripts else base

    def one(self):
        """One letter, sign, number or group."""
        token = self.take()
        name = token[1:] if token.startswith("\\") else ""
        if token == "{":
            inside = self.row()
            self.take()
            return f"<mrow>{inside}</mrow>"
        if name in IGNORED and name:
            return self.one() if self.peek() else ""
        if name in ("frac", "tfrac", "dfrac"):
            return f"<mfrac>{self.one()}{self.one()}</mfrac>"
        if name == "sqrt":
            return f"<msqrt>{self.one()}</msqrt>"
        if name in ACCENTS:
            return f'<mover accent="true">{self.one()}<mo>{ACCENTS[name]}</mo></mover>'
        if name in ("mathcal", "mathbb", "mathrm", "mathbf", "text", "operatorname"):
            return self.styled(name)
        if name in SPACES:
            return f'<mspace width="{SPACES[name]}em"></mspace>'
        if name in LETTERS:
            return f"<mi>{LETTERS[name]}</mi>"
        if name in SIGNS:
            return f'<mo stretchy="false">{html.escape(SIGNS[name])}</mo>'
        if name:
            return f'<mi mathvariant="normal">{html.escape(name)}</mi>'
        if token[:1].isdigit():
            return f"<mn>{token}</mn>"
        tag = "mi" if token.isalpha() else 'mo stretchy="false"'
        return f"<{tag}>{html.escape({'-': '−', '*': '∗'}.get(token, token))}</{tag[:2]}>"

    def styled(self, name):
        """The letters of a group in another alphabet, or upright."""
        letters = ""
        if self.peek() == "{":
            self.take()
            while self.peek() not in ("}", ""):
                letters += self.take()
            self.take()
        else:
            letters = self.take()
        alphabet = {"mathcal": {"N": "𝒩", "L": "ℒ", "D": "𝒟"}, "mathbb": {"E": "𝔼", "R": "ℝ", "P": "ℙ"}}.get(
            name, {}
        )
        shown = "".join(alphabet.get(letter, letter) for letter in letters)
        return f'<mi mathvariant="normal">{html.escape(shown)}</mi>'


CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
MATH = re.compile(r"\$\$(.+?)\$\$|\$([^$\s](?:[^$]*[^$\s])?)\$", re.DOTALL)


def inline(text, math=False):
    """One paragraph as HTML: code, emphasis, and formulas where there may be some."""
    kept = []

    def keep(shown):
        kept.append(shown)
        return f"\x00{len(kept) - 1}\x00"

    text = text.replace("\x00", "")
    text = CODE.sub(lambda m: keep(f"<code>{html.escape(m[2].strip())}</code>"), text)
    if math:
        text = MATH.sub(lambda m: keep(Formula(m[1] or m[2]).mathml(bool(m[1]))), text)
        text = re.sub(r"\[([^\]]+)\]\([^)\s]+\)", r"\1", text)
    text = html.escape(text)
    text = re.sub(r"\*\*(?=\S)(.+?)(?<=\S)\*\*", r"<strong>\1</strong>", text, flags=re.DOTALL)
    text = re.sub(r"(?<![\w*])\*(?=[^\s*])(.+?)(?<=[^\s*])\*(?![\w*])", r"<em>\1</em>", text, flags=re.DOTALL)
    return re.sub(r"\x00(\d+)\x00", lambda m: kept[int(m[1])], text)


def blocks(text):
    """Several paragraphs, lists and pieces of code of ours as HTML."""
    found = []
    for piece in re.split(r"\n\s*\n", text.strip()):
        fenced = re.match(r"```\w*\n(.*?)\n?```\Z", piece.strip(), re.DOTALL)
        if fenced:
            found.append(code(fenced[1]))
        elif re.match(r"[-*] ", piece):
            items = re.split(r"(?m)^[-*] ", piece)[1:]
            found.append(
                "<ul>" + "".join(f"<li>{inline(item.strip(), True)}</li>" for item in items) + "</ul>"
            )
        elif piece.strip().startswith("|"):
            found.append(f"<pre>{html.escape(piece)}</pre>")
        else:
            found.append(f"<p>{inline(piece, True)}</p>")
    return "".join(found)


def code(text):
    """Code in a box that scrolls, and that a keyboard can reach."""
    return f'<pre tabindex="0"><code>{html.escape(text)}</code></pre>'


def bare(text):
    """A message for a terminal: as it is, with its backticks as quotes."""
    return CODE.sub(lambda m: m[2], text)
