"""Draw the figure on the book's first page: what a model knows, and knows that it does not.

The curve and the bands are the exact posterior of a Gaussian process given
fourteen noisy observations with a gap between them; nothing is drawn by hand.
"""

import numpy as np

from tools.book import ROOT

WIDTH, HEIGHT = 920, 300
LENGTH, AMPLITUDE, NOISE = 0.9, 1.0, 0.15


def kernel(a, b):
    """Squared-exponential covariance."""
    return AMPLITUDE**2 * np.exp(-0.5 * ((a[:, None] - b) / LENGTH) ** 2)


def posterior(x, y, at):
    """Mean and standard deviation of the function (noise excluded) at the points ``at``."""
    gain = np.linalg.solve(kernel(x, x) + NOISE**2 * np.eye(len(x)), kernel(x, at)).T
    variance = AMPLITUDE**2 - np.einsum("ij,ij->i", gain, kernel(at, x))
    return gain @ y, np.sqrt(np.maximum(variance, 0))


def draw():
    """The figure as SVG, in colours that hold on white and on black."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(-4.6, -1.8, 8), rng.uniform(1.2, 3.4, 6)])
    y = np.sin(1.4 * x) * 0.9 + NOISE * rng.normal(size=len(x))
    at = np.linspace(-6.4, 6.4, 161)
    mean, std = posterior(x, y, at)

    def place(px, py):
        left, top = (px + 6.4) / 12.8 * WIDTH, HEIGHT / 2 - py * 58
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(left, top, strict=True))

    shapes = []
    for width, opacity in ((2.0, 0.16), (1.0, 0.24)):
        band = place(at, mean + width * std) + " " + place(at[::-1], (mean - width * std)[::-1])
        shapes.append(f'<polygon points="{band}" fill="#3B9BD8" fill-opacity="{opacity}"/>')
    shapes.append(f'<polyline points="{place(at, mean)}" fill="none" stroke="#2F8FD0" stroke-width="3"/>')
    for point in place(x, y).split():
        left, top = point.split(",")
        shapes.append(f'<circle cx="{left}" cy="{top}" r="5.5" fill="#E39A1A"/>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">'
    return "\n".join([head, *shapes, "</svg>"]) + "\n"


if __name__ == "__main__":
    (ROOT / "_static" / "cover.svg").write_text(draw())
