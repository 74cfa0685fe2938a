"""Letters rendered from matplotlib's own fonts: what a classifier of digits has never seen."""

from functools import lru_cache
from pathlib import Path

import numpy as np

from uqhelpers._checks import as_generator, as_whole
from uqhelpers.data.containers import Split

# Fonts that ship with matplotlib on every platform, upright and slanted, with and without serifs.
FONTS = (
    "DejaVuSans.ttf",
    "DejaVuSans-Bold.ttf",
    "DejaVuSans-Oblique.ttf",
    "DejaVuSansMono.ttf",
    "DejaVuSansMono-Bold.ttf",
    "DejaVuSerif.ttf",
    "DejaVuSerif-Bold.ttf",
    "DejaVuSerif-Italic.ttf",
    "STIXGeneral.ttf",
    "STIXGeneralBol.ttf",
    "STIXGeneralItalic.ttf",
    "cmb10.ttf",
    "cmss10.ttf",
    "cmtt10.ttf",
)

MISTAKABLE = "BDGIJOQSZbgijloqsyz"
"""Letters that are left out, because a reader could take one for a digit.

B and 8, D and 0, G and 6, I and 1, J and 1, O and 0, Q and 0, S and 5, Z and 2; b and 6, g and 9, i and 1,
j and 1, l and 1, o and 0, q and 9, s and 5, y and 4 or 9, z and 2.
"""
LETTERS = tuple(c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in MISTAKABLE)
"""The letters that are rendered."""

LARGE = 20  # pixels a side, from which letters are drawn in MNIST's style
WIDE = "MWmw"  # left out of smaller images: four strokes side by side run together there

# What scikit-learn's digits look like: they fill the height but not the width, with a broad pen.
SMALL_ROOM = np.array([0.75, 1.0])
SMALL_STROKE = 0.15  # added to the outline, in pixels; makes letters as bright as the digits on average


def letters(n=600, image_shape=(1, 8, 8), seed=0):
    """Letters that look like the digits: as large, as bright, as centred, but no digits.

    Each is drawn from a random font that matplotlib ships, antialiased, in a
    random width, slant and rotation. Letters that are easily mistaken for a
    digit are left out (``MISTAKABLE``), and M and W where there is no room for
    four strokes. In small images letters fill the height and at most three
    quarters of the width, with a broad pen, as scikit-learn's digits do. From
    20 pixels a side on they fit into 20/28 of it, with the centre of mass in
    the middle, as in MNIST.

    Parameters
    ----------
    n : int
        How many.
    image_shape : tuple of int
        ``(1, H, W)``, at least 5 pixels a side.
    seed : int or numpy.random.Generator
        Where letters, fonts and shapes are drawn from.

    Returns
    -------
    Split
        Labels are places in the alphabet, 0 for A and a, to 25. Letters left
        out in both cases have no images.
    """
    n = as_whole(n, "n")
    height, width = _as_image_shape(image_shape)
    rng = as_generator(seed)
    known = [c for c in LETTERS if min(height, width) >= LARGE or c not in WIDE]
    chosen = rng.integers(len(known), size=n)
    fonts = rng.integers(len(FONTS), size=n)
    slants = rng.normal(0, 0.12, size=n)
    turns = rng.normal(0, 0.10, size=n)
    stretches = rng.uniform(0.8, 1.1, size=n)

    draw = _pen(height, width)
    images = np.empty((n, 1, height, width), dtype=np.float32)
    for i in range(n):
        shape = np.array([[stretches[i], slants[i]], [0, 1]])
        turn = np.array([[np.cos(turns[i]), -np.sin(turns[i])], [np.sin(turns[i]), np.cos(turns[i])]])
        images[i, 0] = draw(_outline(known[chosen[i]], FONTS[fonts[i]]), turn @ shape)
    places = np.array([ord(letter.upper()) - ord("A") for letter in known], dtype=np.int64)
    return Split(images, places[chosen])


def _as_image_shape(image_shape):
    """Height and width of a shape of one channel."""
    try:
        channels, height, width = image_shape
    except (TypeError, ValueError) as error:
        raise ValueError(f"image_shape: expected (1, height, width), got {image_shape!r}") from error
    as_whole(channels, "image_shape: channels", 1, 1)
    return as_whole(height, "image_shape: height", 5), as_whole(width, "image_shape: width", 5)


@lru_cache(maxsize=len(LETTERS) * len(FONTS))
def _outline(letter, font):
    """A letter's outline as a matplotlib path."""
    import matplotlib
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    file = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / font
    return TextPath((0, 0), letter, size=100, prop=FontProperties(fname=str(file)))


def _pen(height, width):
    """A function that draws an outline, under a linear map, as large as the digits are."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.path import Path as Outline
    from matplotlib.transforms import Affine2D

    large = min(height, width) >= LARGE
    room = np.array([width, height]) * (20 / 28 if large else SMALL_ROOM)
    middle = np.array([width, height]) / 2
    renderer = RendererAgg(width, height, 72)
    context = renderer.new_gc()
    context.set_linewidth(0 if large else SMALL_STROKE)
    context.set_snap(False)  # letters stand between pixels, as handwriting does

    def paint(vertices, codes):
        renderer.clear()
        renderer.draw_path(context, Outline(vertices, codes), Affine2D(), rgbFace=(0, 0, 0, 1))
        return np.asarray(renderer.buffer_rgba())[..., 3] / 255  # coverage: row 0 is the top

    def draw(outline, linear):
        vertices = outline.vertices @ linear.T
        low, high = Outline(vertices, outline.codes).get_extents().get_points()
        scale = room / (high - low)
        # MNIST keeps the proportions; the small digits fill the height and are squeezed to fit the width.
        scale = scale.min() if large else np.minimum(scale, scale[1])
        vertices = (vertices - (low + high) / 2) * scale + middle
        image = paint(vertices, outline.codes)
        if large:  # from the middle of its box to its centre of mass
            mass = image.sum()
            right = image.sum(axis=0) @ (np.arange(width) + 0.5) / mass - middle[0]
            down = image.sum(axis=1) @ (np.arange(height) + 0.5) / mass - middle[1]
            image = paint(vertices - np.array([right, -down]), outline.codes)  # outlines have y upwards
        return image

    return draw
