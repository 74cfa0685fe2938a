"""Nearest neighbours by distances that are computed afresh, whatever the offset, the scale and the units.

``|q|² - 2 q·x + |x|²`` is quick and cancels: far from the origin, or between
points that nearly coincide, it answers with rounding. Here it only proposes.
Every point that could be among the nearest within the bound of that rounding is
looked at again, by the difference of the coordinates as they came.
"""

import numpy as np

from uqhelpers._checks import as_real, as_whole

__all__ = ["NearestNeighbours", "SquaredDistances", "power_of_two", "squared_distances", "to_unit_length"]

BLOCK = 1 << 18  # numbers held at a time: 1 or 2 MB, which stay near the processor
ROOMY = 1e150  # between its inverse and this, squares of numbers stay inside float64
LEAST_ROWS = 8  # of a block, however long they are
DOUBT = 1e-9  # of the squares' sizes: below it a difference of squares has lost more than six digits
PLANE = 8  # up to so many dimensions a tree is quicker than a product of matrices


class NearestNeighbours:
    """The nearest of some points, in Euclidean distance.

    Parameters
    ----------
    points : array, shape (N, D)
        Among which neighbours are looked for.
    """

    def __init__(self, points):
        self.points = np.array(as_real(points, "points", ndim=2), order="C")  # its own
        self._proposals = {}
        self._tree = None

    def find(self, queries=None, k=1):
        """The ``k`` nearest points of each query, the nearest first.

        Parameters
        ----------
        queries : array, shape (M, D), optional
            By default the points themselves, none of which is its own
            neighbour; another point at the same place is.
        k : int
            How many, at most ``N``, or ``N - 1`` for the points themselves.

        Returns
        -------
        distances : array, shape (M, k), float64
            Relative error a few roundings. Infinite where float64 ends.
        places : array of int, shape (M, k)
            Which points. Of equally near ones the first come first, but for the
            last place any of them may be taken.
        """
        alone = queries is None
        k = as_whole(k, "k", high=len(self.points) - alone)
        queries = self.points if alone else self._as_queries(queries)
        distances = np.empty((len(queries), k))
        places = np.empty((len(queries), k), np.intp)
        waiting = np.arange(len(queries))
        for search in self._searches(queries):
            waiting = waiting[~search(queries, waiting, k, alone, distances, places)]
            if not len(waiting):
                break
        return distances, places

    def _as_queries(self, queries):
        queries = np.ascontiguousarray(as_real(queries, "queries", ndim=2))
        if queries.shape[1] != self.points.shape[1]:
            raise ValueError(f"queries: expected width {self.points.shape[1]}, got {queries.shape[1]}")
        return queries

    def _searches(self, queries):
        """From the quickest to the one that always answers; each takes what the one before could not."""
        if self.points.shape[1] <= PLANE and _squares_fit(self.points) and _squares_fit(queries):
            yield self._by_tree
        else:
            yield self._by_product(np.float32)
            yield self._by_product(np.float64)
        yield self._by_differences

    def _by_tree(self, queries, rows, k, alone, distances, places):
        from scipy.spatial import cKDTree

        if self._tree is None:
            self._tree = cKDTree(self.points)
        more = k + alone
        near = self._tree.query(queries[rows], k=more)[1].reshape(len(rows), more)
        for part in _slices(len(rows), more * self.points.shape[1]):
            places_here = near[part]
            exact = _lengths(self.points[places_here] - queries[rows[part]][:, None])
            if alone:
                exact[places_here == rows[part][:, None]] = np.inf
            _keep(exact, places_here, k, rows[part], distances, places)
        return np.ones(len(rows), bool)

    def _by_product(self, precision):
        """A search whose proposals come from products of matrices in some precision."""

        def search(queries, rows, k, alone, distances, places):
            centre, unit, moved, halves, size = self._proposal(precision)
            done = np.zeros(len(rows), bool)
            for part in _slices(len(rows), len(self.points)):
                here = rows[part]
                with np.errstate(over="ignore", invalid="ignore"):
                    asked = (queries[here] - centre) / unit
                    lengths = np.sqrt(np.einsum("nd,nd->n", asked, asked))
                    # Half of the squared distance, less half of the query's own square.
                    partial = asked.astype(precision) @ moved
                    np.subtract(halves, partial, out=partial)
                usable = (lengths + size) * size < float(np.finfo(precision).max) / 8  # false for NaN
                if alone:
                    partial[np.arange(len(here)), here] = np.inf
                error = self._bound(precision, np.where(usable, lengths, 0), size)
                reach = np.where(usable, _rough_kth(partial, k) + 2 * error, -np.inf)
                inside = partial <= reach[:, None].astype(precision)
                counts = np.count_nonzero(inside, axis=1)
                # With too many to look at, the next search has sharper eyes.
                usable &= counts <= max(8 * k + 64, len(self.points) // 16)
                inside[~usable] = False
                flat = np.flatnonzero(inside)
                _refine(self.points, queries, here, *np.divmod(flat, len(self.points)), k, distances, places)
                done[part] = usable
            return done

        return search

    def _proposal(self, precision):
        """The points around their centre in some precision, transposed, and half of their squares."""
        if precision not in self._proposals:
            with np.errstate(over="ignore", invalid="ignore"):
                centre = self.points[0] + (self.points - self.points[0]).mean(axis=0)
                centre = centre if np.isfinite(centre).all() else np.zeros_like(centre)
                moved = self.points - centre
                unit = power_of_two(np.abs(moved).max())  # divides without rounding
                moved /= unit
            halves = np.einsum("nd,nd->n", moved, moved) / 2
            self._proposals[precision] = (
                centre,
                unit,
                np.ascontiguousarray(moved.T.astype(precision)),
                halves.astype(precision),
                np.sqrt(2 * halves.max()),
            )
        return self._proposals[precision]

    def _bound(self, precision, lengths, size):
        """How far half a squared distance may be from the truth: rounding of D products and three sums."""
        kind = np.finfo(precision)
        width = self.points.shape[1]
        lost = (width + 8) * kind.eps * (lengths + size) * size
        return lost + width * float(kind.tiny) * (1 + lengths + size)

    def _by_differences(self, queries, rows, k, alone, distances, places):
        every = np.arange(len(self.points))
        for row in rows:
            exact = np.empty(len(self.points))
            for part in _slices(len(self.points), self.points.shape[1]):
                exact[part] = _lengths(self.points[part] - queries[row])
            if alone:
                exact[row] = np.inf
            least = every
            if k < len(every):
                least = np.flatnonzero(exact <= np.partition(exact, k - 1)[k - 1])
            _keep(exact[least][None], least[None], k, [row], distances, places)
        return np.ones(len(rows), bool)


def _refine(points, queries, rows, local, candidates, k, distances, places):
    """The k nearest of each row's candidates, by their differences; a row has at least k, or none."""
    exact = np.empty(len(candidates))
    for part in _slices(len(candidates), points.shape[1]):
        exact[part] = _lengths(points[candidates[part]] - queries[rows[local[part]]])
    order = np.lexsort((candidates, exact, local))
    counts = np.bincount(local, minlength=len(rows))
    found = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[found]
    first = order[starts[:, None] + np.arange(k)]
    distances[rows[found]], places[rows[found]] = exact[first], candidates[first]


def _keep(exact, candidates, k, rows, distances, places):
    """The k nearest of as many candidates for every row."""
    order = np.lexsort((candidates, exact), axis=-1)[:, :k]
    distances[rows] = np.take_along_axis(exact, order, axis=1)
    places[rows] = np.take_along_axis(candidates, order, axis=1)


def _rough_kth(values, k, groups=512):
    """A number that at least k values of each row do not exceed, and few more.

    The least of each of many groups are that many different values: the k-th
    smallest of them will do, and they are few enough to be sorted.
    """
    width = values.shape[1]
    groups = max(groups, 4 * k)
    if width < 4 * groups:
        return np.partition(values, k - 1, axis=1)[:, k - 1].astype(np.float64)
    size = width // groups
    least = values[:, : groups * size].reshape(len(values), size, groups).min(axis=1)
    return np.partition(least, k - 1, axis=1)[:, k - 1].astype(np.float64)


def _lengths(differences):
    """Euclidean lengths over the last axis, also where squares leave float64."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("...d,...d->...", differences, differences)
        lengths = np.sqrt(squares)
        odd = ~((squares > 1 / ROOMY**1.8) & (squares < ROOMY**2))
        if odd.any():
            unit = power_of_two(np.abs(differences[odd]).max(axis=-1))
            scaled = differences[odd] / unit[..., None]
            lengths[odd] = np.sqrt(np.einsum("...d,...d->...", scaled, scaled)) * unit
    return lengths


def power_of_two(sizes):
    """The power of two at or below each size, by which one divides without rounding.

    Parameters
    ----------
    sizes : float or array
        At least 0.

    Returns
    -------
    float or array
        1 for what is 0 or infinite.
    """
    sizes = np.where((sizes > 0) & np.isfinite(sizes), sizes, 1.0)
    return np.ldexp(1.0, np.frexp(sizes)[1] - 1)


def _squares_fit(points):
    """Whether squares of all differences of such coordinates stay inside float64, those of 0 aside."""
    sizes = np.abs(points)
    least = np.min(sizes, where=sizes > 0, initial=np.inf)
    return sizes.max() < ROOMY and least > 1e-120


def _slices(length, width):
    step = max(LEAST_ROWS, BLOCK // width)
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


class SquaredDistances:
    """Squared distances to known points, which are made ready once.

    Expanded squares where they are good for six digits, differences elsewhere.

    Parameters
    ----------
    known : array, shape (N, D)
        Finite numbers; kept as they are, not copied.
    """

    def __init__(self, known):
        self.known = known
        self._centre = known[0] + (known - known[0]).mean(axis=0)  # smaller numbers, less rounding
        self._moved = known - self._centre
        self._lengths = np.einsum("nd,nd->n", self._moved, self._moved)
        self._longest = self._lengths.max()

    def blocks(self, points):
        """Squared distances to all known points, block by block.

        Parameters
        ----------
        points : array, shape (M, D)
            Finite numbers.

        Yields
        ------
        array, shape (some, N), float64
            At least 0; infinite where float64 ends.
        """
        known, lengths = self.known, self._lengths
        for part in _slices(len(points), len(known)):
            asked = points[part] - self._centre
            with np.errstate(over="ignore", invalid="ignore"):
                own = np.einsum("nd,nd->n", asked, asked)
                squares = lengths - 2 * asked @ self._moved.T
                squares += own[:, None]
                # First by the row, which is quicker; the comparisons are false for NaN.
                rows = np.flatnonzero(~(squares.min(axis=1) > DOUBT * (own + self._longest)))
                local, columns = np.nonzero(~(squares[rows] > DOUBT * (own[rows, None] + lengths)))
                rows = rows[local]
                for some in _slices(len(rows), known.shape[1]):
                    apart = points[part][rows[some]] - known[columns[some]]
                    squares[rows[some], columns[some]] = np.einsum("nd,nd->n", apart, apart)
            yield squares


def squared_distances(points, known):
    """Squared distances to all known points, block by block: :class:`SquaredDistances` made for one use.

    Parameters
    ----------
    points, known : array, shape (M, D) and (N, D), of finite numbers

    Yields
    ------
    array, shape (some, N), as :meth:`SquaredDistances.blocks` yields them
    """
    yield from SquaredDistances(known).blocks(points)


def to_unit_length(features):
    """Rows divided by their length; a row of zeros stays what it is.

    Parameters
    ----------
    features : array, shape (N, D), of finite numbers of any size

    Returns
    -------
    array, shape (N, D), float64
    """
    features = as_real(features, "features", ndim=2)
    # By the largest entry first: squares of very small or large numbers leave float64.
    largest = np.abs(features).max(axis=1, keepdims=True)
    features = features / np.where(largest > 0, largest, 1)
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    return features / np.where(lengths > 0, lengths, 1)
