"""Out-of-distribution detection: scores that say whether an input is of a kind the network was trained on.

Every score is higher for stranger inputs, and computed in float64. From the
logits: ``softmax_score`` (minus the largest probability), ``max_logit_score``
and ``energy_score``. From the network and its gradient: ``odin_score``, which
softens the softmax by a temperature and nudges the input towards the class that
was predicted. From features of the last hidden layer: ``Mahalanobis`` and
``KNearestNeighbours``.

``tune`` chooses ODIN's two settings on held-out data and a *stand-in* for the
strange. Never hand it the set whose figures are reported.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack
from scipy.special import logsumexp

from uqhelpers._checks import as_choice, as_labels, as_number, as_real, as_whole, to_numpy
from uqhelpers._torch import torch
from uqhelpers.metrics import auroc, fpr95, from_logits, msp_score
from uqhelpers.training import as_inputs, evaluating

nn = torch.nn

__all__ = [
    "KNearestNeighbours",
    "Mahalanobis",
    "Tuning",
    "energy_score",
    "max_logit_score",
    "odin_score",
    "perturb",
    "softmax_score",
    "tune",
]

ROWS = 512  # of features at a time: with their product they fit a core's cache
ANY_CLASS = np.iinfo(np.int64).max


# --- from the logits --------------------------------------------------------------------------------------


def softmax_score(logits, temperature=1.0):
    """Minus the largest softmax probability at a temperature: the baseline, and ODIN without its nudge.

    Parameters
    ----------
    logits : array, shape (N, C)
        What the classifier puts out.
    temperature : float
        By which the logits are divided, above 0. Above 1 it flattens the
        probabilities, and ranks by how far the largest logit stands above the
        *average* of the others rather than above the second largest.

    Returns
    -------
    array, shape (N,), float64
        From -1 (familiar) to -1/C.

    Raises
    ------
    ValueError
        If the logits are no finite matrix of at least two classes or look like
        probabilities, or the temperature is not above 0.

    References
    ----------
    Hendrycks and Gimpel (2017), A baseline for detecting misclassified and
    out-of-distribution examples in neural networks; the temperature: Liang, Li
    and Srikant (2018), section 3.
    """
    temperature = as_number(temperature, "temperature", low=0, open_low=True)
    return msp_score(from_logits(_as_logits(logits) / temperature))


def max_logit_score(logits):
    """Minus the largest logit: the evidence for the winner, whatever the others have.

    Parameters
    ----------
    logits : array, shape (N, C)
        What the classifier puts out.

    Returns
    -------
    array, shape (N,), float64
        In the units of the logits.

    Raises
    ------
    ValueError
        If the logits are no finite matrix of at least two classes, or look like
        probabilities.

    References
    ----------
    Hendrycks et al. (2022), Scaling out-of-distribution detection for
    real-world settings.
    """
    return -_as_logits(logits).max(axis=1)


def energy_score(logits, temperature=1.0):
    """The free energy of the logits, ``-T log sum exp(logits / T)``.

    Parameters
    ----------
    logits : array, shape (N, C)
        What the classifier puts out.
    temperature : float
        Above 0. Towards 0 the energy becomes minus the largest logit; at high
        temperatures it ranks by the average logit.

    Returns
    -------
    array, shape (N,), float64
        In the units of the logits, at most minus the largest logit.

    Raises
    ------
    ValueError
        If the logits are no finite matrix of at least two classes or look like
        probabilities, or the temperature is not above 0.

    References
    ----------
    Liu et al. (2020), Energy-based out-of-distribution detection, eq. 4.
    """
    temperature = as_number(temperature, "temperature", low=0, open_low=True)
    return -temperature * logsumexp(_as_logits(logits) / temperature, axis=1)


def _as_logits(logits):
    """A finite float64 matrix with a column a class, which is not one of probabilities."""
    array = as_real(logits, "logits", ndim=2)
    if array.shape[1] < 2:
        raise ValueError(f"logits: expected at least two classes, shape (inputs, classes), got {array.shape}")
    if array.min() >= 0 and np.abs(array.sum(axis=1) - 1).max() < 1e-6:
        raise ValueError("logits: expected logits, got rows that sum to 1: are these probabilities?")
    return array


# --- ODIN -------------------------------------------------------------------------------------------------


def odin_score(model, inputs, temperature=1000.0, epsilon=0.0014, std=None, batch_size=100):
    """ODIN: minus the largest softmax probability at a temperature, after a step towards the prediction.

    The input moves by ``epsilon`` a pixel, in the direction that lowers the
    cross-entropy of the predicted class at that temperature. Familiar inputs
    gain more probability by it than strange ones do; that, at least, is the
    hope. The softmax is computed in float64: at a temperature of 1000 the
    probabilities of ten classes all lie within about a thousandth of 1/10, and
    single precision ties many of them.

    Parameters
    ----------
    model : torch.nn.Module
        A classifier that puts out logits; left in the state in which it came,
        with no gradient on its parameters.
    inputs : array, shape (N, ...)
        Inputs, real numbers.
    temperature : float
        Above 0.
    epsilon : float
        Size of the step, at least 0, in the units of the inputs: of pixels in
        [0, 1] for networks that standardise inside themselves, as those of
        ``uqhelpers.models`` do. As published, the moved input is not clipped
        to the range of the pixels.
    std : float or array, shape (channels,), optional
        By which the inputs were divided before they came here. ``epsilon`` then
        counts in the units from before, and the step is divided by ``std``.
    batch_size : int
        Inputs at a time.

    Returns
    -------
    array, shape (N,), float64
        From -1 (familiar) to -1/C. With ``temperature=1, epsilon=0`` exactly the
        score of the largest probability.

    Raises
    ------
    ValueError
        If the model is no network, the inputs are empty, not finite or whole
        numbers, a setting is out of its range, ``std`` does not fit the inputs,
        or the network does not put out one row of logits an input.

    References
    ----------
    Liang, Li and Srikant (2018), Enhancing the reliability of out-of-distribution
    image detection in neural networks, eqs. 1 and 2.
    """
    settings = _Settings.of(model, inputs, temperature, epsilon, std, batch_size)
    with evaluating(model):
        parts = [
            _logits(model, settings.moved(model, part, epsilon)) for part in settings.parts(model, inputs)
        ]
    return softmax_score(np.concatenate(parts), temperature)


def perturb(model, inputs, temperature=1000.0, epsilon=0.0014, std=None, batch_size=100):
    """The inputs as ODIN shows them to the network the second time.

    Parameters, exceptions
        As :func:`odin_score`.

    Returns
    -------
    array, the inputs' shape, in the network's precision
        ``inputs - epsilon * sign(gradient) / std``. Where the gradient is
        exactly 0, nothing moves.
    """
    settings = _Settings.of(model, inputs, temperature, epsilon, std, batch_size)
    with evaluating(model):
        parts = [settings.moved(model, part, epsilon) for part in settings.parts(model, inputs)]
    return torch.cat(parts).cpu().numpy()


@dataclass(frozen=True, eq=False)
class Tuning:
    """What ``tune`` chose, and all that it tried.

    Attributes
    ----------
    temperature, epsilon : float
        The best pair; of equals the one with the lowest temperature, then the
        smallest step.
    figures : array, shape (temperatures, epsilons)
        AUROC, or FPR95, of every pair, the proxy being positive.
    temperatures, epsilons : array
        What was tried, in ascending order.
    criterion : str
        ``"auroc"`` or ``"fpr95"``.
    """

    temperature: float
    epsilon: float
    figures: np.ndarray
    temperatures: np.ndarray
    epsilons: np.ndarray
    criterion: str


def tune(
    model,
    held_out_id,
    proxy_ood,
    temperatures=(1.0, 10.0, 100.0, 1000.0),
    epsilons=(0.0, 0.0014, 0.0028, 0.0056, 0.0112, 0.0224, 0.0448),
    std=None,
    criterion="auroc",
    batch_size=100,
):
    """ODIN's temperature and step, chosen on held-out data and a stand-in for the strange.

    Parameters
    ----------
    model : torch.nn.Module
        As in :func:`odin_score`.
    held_out_id : array, shape (N, ...)
        Inputs from the training distribution that the network was not trained on,
        and that no figure is reported on: the validation part.
    proxy_ood : array, shape (M, ...)
        Strange inputs that are *not* those whose figures are reported: another
        set, or the familiar ones with their pixels shuffled.
    temperatures, epsilons : sequence of float
        The grid.
    std : float or array, shape (channels,), optional
        As in :func:`odin_score`.
    criterion : {"auroc", "fpr95"}
        What is to be best. FPR95 with the proxy as the positive class.
    batch_size : int
        Inputs at a time.

    Returns
    -------
    Tuning
        The best pair and the whole grid.

    Raises
    ------
    ValueError
        As :func:`odin_score`; also if the grid is empty, or both sets are the
        same inputs.
    """
    temperatures = np.unique([as_number(t, "temperatures", low=0, open_low=True) for t in temperatures])
    epsilons = np.unique([as_number(e, "epsilons", low=0) for e in epsilons])
    if not len(temperatures) or not len(epsilons):
        raise ValueError("temperatures, epsilons: expected at least one value each, got none")
    figure = {"auroc": auroc, "fpr95": fpr95}[as_choice(criterion, "criterion", ("auroc", "fpr95"))]
    sets = [
        _of_argument(name, held) for name, held in (("held_out_id", held_out_id), ("proxy_ood", proxy_ood))
    ]
    if sets[0].shape == sets[1].shape and np.array_equal(*sets):
        raise ValueError("proxy_ood: expected other inputs than held_out_id, got the same ones")
    scores = [_grid(model, held, temperatures, epsilons, std, batch_size) for held in sets]
    strange = np.repeat([False, True], [len(held) for held in sets])
    figures = np.array(
        [
            [figure(np.concatenate(pair), strange, "proxy OOD") for pair in zip(*rows, strict=True)]
            for rows in zip(*scores, strict=True)
        ],
        dtype=np.float64,
    )
    worse = -figures if criterion == "auroc" else figures
    row, column = np.unravel_index(worse.argmin(), worse.shape)
    return Tuning(
        float(temperatures[row]), float(epsilons[column]), figures, temperatures, epsilons, criterion
    )


def _grid(model, inputs, temperatures, epsilons, std, batch_size):
    """Scores of shape (temperatures, epsilons, N): one gradient a temperature, whatever the steps."""
    scores = np.empty((len(temperatures), len(epsilons), len(inputs)))
    for row, temperature in enumerate(temperatures):
        settings = _Settings.of(model, inputs, temperature, epsilons.max(), std, batch_size)
        start = 0
        with evaluating(model):
            for part in settings.parts(model, inputs):
                direction = settings.direction(model, part) if epsilons.max() else None
                place = slice(start, start := start + len(part))
                for column, epsilon in enumerate(epsilons):
                    moved = part - epsilon * direction if epsilon else part
                    scores[row, column, place] = softmax_score(_logits(model, moved), temperature)
    return scores


def _of_argument(name, inputs):
    """A NumPy array of some inputs, named in the error if it is none."""
    array = to_numpy(inputs, name)
    if array.ndim < 2 or array.size == 0:
        raise ValueError(f"{name}: expected at least one input, shape (inputs, ...), got shape {array.shape}")
    return array


@dataclass(frozen=True, eq=False)
class _Settings:
    """Checked settings of ODIN's step."""

    temperature: float
    std: object  # a tensor that divides (N, channels, ...), or None
    batch_size: int

    @classmethod
    def of(cls, model, inputs, temperature, epsilon, std, batch_size):
        if not isinstance(model, nn.Module) or next(model.parameters(), None) is None:
            raise ValueError(f"model: expected a torch.nn.Module with parameters, got {type(model).__name__}")
        temperature = as_number(temperature, "temperature", low=0, open_low=True)
        as_number(epsilon, "epsilon", low=0)
        return cls(temperature, _as_std(std, inputs, model), as_whole(batch_size, "batch_size"))

    def parts(self, model, inputs):
        """Batches of real numbers on the network's device."""
        tensor = as_inputs(inputs, model)
        if not tensor.is_floating_point() or tensor.ndim < 2:
            raise ValueError(
                "inputs: expected real numbers, shape (inputs, ...), that can be moved by a small step, "
                f"got {tensor.dtype} of shape {tuple(tensor.shape)}"
            )
        device = next(model.parameters()).device
        for part in tensor.split(self.batch_size):
            yield part.to(device)

    def direction(self, model, part):
        """The sign of the cross-entropy's gradient, divided by ``std``."""
        with torch.inference_mode(False), torch.enable_grad():
            # A tensor that was made in inference mode can have no gradient, its copy can.
            part = (part.clone() if part.is_inference() else part.detach()).requires_grad_()
            logits = _checked(model(part), len(part))
            if not logits.requires_grad:
                raise ValueError("model: expected outputs that depend on the inputs, got no gradient")
            winner = logits.argmax(dim=1, keepdim=True)
            others = torch.zeros_like(logits).scatter(1, winner, -torch.inf) + logits
            # The cross-entropy is softplus of this over T, so both rise and fall together. But the softmax
            # of a sure network rounds to 1, and its gradient to nothing; this one never does.
            behind = self.temperature * torch.logsumexp(others / self.temperature, dim=1)
            loss = behind - logits.gather(1, winner)[:, 0]
            (gradient,) = torch.autograd.grad(loss.sum(), part)
        sign = gradient.sign()
        return sign if self.std is None else sign / self.std.reshape(-1, *[1] * (sign.ndim - 2))

    def moved(self, model, part, epsilon):
        """One batch after the step."""
        return part - epsilon * self.direction(model, part) if epsilon else part


def _as_std(std, inputs, model):
    """A tensor with one positive entry, or one a channel."""
    if std is None:
        return None
    array = np.atleast_1d(as_real(std, "std"))
    shape = np.shape(inputs)
    channels = shape[1] if len(shape) > 1 else 0
    if array.ndim != 1 or len(array) not in (1, channels) or array.min() <= 0:
        raise ValueError(
            f"std: expected a number above 0, or one for each of {channels} channels, got {array.tolist()}"
        )
    parameter = next(model.parameters())
    return torch.as_tensor(array, dtype=parameter.dtype, device=parameter.device)


def _logits(model, part):
    """Logits of one batch as float64 NumPy."""
    with torch.inference_mode():
        return _checked(model(part), len(part)).double().cpu().numpy()


def _checked(outputs, length):
    if not torch.is_tensor(outputs) or outputs.ndim != 2 or len(outputs) != length or outputs.shape[1] < 2:
        got = tuple(outputs.shape) if torch.is_tensor(outputs) else type(outputs).__name__
        raise ValueError(f"model: expected logits of shape ({length}, at least 2 classes), got {got}")
    return outputs


# --- from the features ------------------------------------------------------------------------------------


class Mahalanobis:
    """Squared Mahalanobis distance to the nearest class mean, with one covariance shared by all classes.

    Computed in float64. A ridge of ``relative_ridge`` times the average variance
    of a feature, tr(Σ)/d, is added to the diagonal, so that dead and linearly
    dependent features do no harm, and the answer does not depend on the
    features' units. A fixed ridge is lost in the rounding of large features,
    and drowns small ones.

    Parameters
    ----------
    relative_ridge : float
        Above 0.

    Attributes
    ----------
    means : array, shape (C, D)
        Mean of each class.
    covariance : array, shape (D, D)
        Maximum-likelihood covariance around the class means, without the ridge.
    ridge : float
        What is added to the diagonal, in squared units of the features.

    Raises
    ------
    ValueError
        If ``relative_ridge`` is not a number above 0.

    References
    ----------
    Lee et al. (2018), A simple unified framework for detecting
    out-of-distribution samples and adversarial attacks, section 2.1 (its
    distance alone, on one layer, without the nudge of the input and without the
    regression over layers, which asks for examples of the strange).
    """

    def __init__(self, relative_ridge=1e-6):
        self.relative_ridge = as_number(relative_ridge, "relative_ridge", low=0, open_low=True)

    def fit(self, features, labels, classes=None):
        """Estimate the means and the covariance; what was fitted before is forgotten.

        Parameters
        ----------
        features : array, shape (N, D)
            Features of the training inputs.
        labels : array, shape (N,)
            Their classes, integers from 0.
        classes : int, optional
            How many classes there are; by default one more than the largest label.

        Returns
        -------
        Mahalanobis
            Itself.

        Raises
        ------
        ValueError
            If the features are no finite matrix or do not vary within the
            classes, the labels do not fit them, or a class has no input.
        """
        features = _as_features(features, "features")
        most = ANY_CLASS if classes is None else as_whole(classes, "classes")
        labels = as_labels(labels, most, length=len(features))
        counts = np.bincount(labels, minlength=0 if classes is None else classes)
        if counts.min() < 1:
            raise ValueError(
                f"labels: expected at least 1 input of each of {len(counts)} classes, "
                f"got none of class {counts.argmin()}"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.stack([features[labels == label].mean(axis=0) for label in range(len(counts))])
            within = features - means[labels]
            covariance = blas.dsyrk(1 / len(within), within.T)
        covariance = np.triu(covariance) + np.triu(covariance, 1).T
        variance = np.trace(covariance) / len(covariance)
        if not np.isfinite(variance):
            raise ValueError("features: expected finite numbers, got NaN, infinity or numbers too large")
        # What rounding leaves of a constant is no variance.
        if variance <= (1e-14 * np.abs(means).max()) ** 2:
            raise ValueError("features: expected features that vary within the classes, got constant ones")
        self.means, self.covariance, self.ridge = means, covariance, self.relative_ridge * variance
        self._whitener = _whitener(covariance, self.ridge)
        self._white_means = (means - means[0]) @ self._whitener.T
        return self

    def distances(self, features):
        """Squared distance to every class mean.

        Parameters
        ----------
        features : array, shape (N, D)
            Features of any inputs.

        Returns
        -------
        array, shape (N, C), float64
            At least 0, without units: for Gaussian classes about D for an input of the class.

        Raises
        ------
        ValueError
            If nothing was fitted yet, or the features are not finite or of
            another width.
        """
        if not hasattr(self, "means"):
            raise ValueError(
                "Mahalanobis: expected fit(features, labels) to be called first, got no such call"
            )
        features = _as_features(features, "features", width=self.means.shape[1])
        distances = np.empty((len(features), len(self.means)))
        for start in range(0, len(features), ROWS):
            part = slice(start, start + ROWS)
            # The whitener is triangular, and BLAS skips the half that is zero.
            white = blas.dtrmm(1.0, self._whitener.T, (features[part] - self.means[0]).T, trans_a=1).T
            for label, mean in enumerate(self._white_means):
                away = white - mean
                distances[part, label] = np.einsum("nd,nd->n", away, away)
        if not np.isfinite(distances).all():
            raise ValueError("features: expected finite numbers, got NaN, infinity or numbers too large")
        return distances

    def score(self, features):
        """Squared distance to the nearest class mean: higher is stranger.

        Parameters, exceptions
            As :meth:`distances`.

        Returns
        -------
        array, shape (N,), float64
            At least 0.
        """
        return self.distances(features).min(axis=1)


class KNearestNeighbours:
    """Distance to the k-th nearest training input, between features of length 1.

    No class, no Gaussian: only how many familiar inputs are near.

    Parameters
    ----------
    k : int
        Which neighbour's distance counts. Small values trust single training
        inputs; the paper takes 50 of 50,000.
    normalise : bool
        Whether features are brought to length 1 first, as published. A vector
        of zeros stays where it is.

    Raises
    ------
    ValueError
        If ``k`` is not a whole number of at least 1.

    References
    ----------
    Sun et al. (2022), Out-of-distribution detection with deep nearest neighbors.
    """

    def __init__(self, k=50, normalise=True):
        self.k, self.normalise = as_whole(k, "k"), bool(normalise)

    def fit(self, features):
        """Remember the training inputs.

        Parameters
        ----------
        features : array, shape (N, D)
            Features of at least ``k`` training inputs.

        Returns
        -------
        KNearestNeighbours
            Itself.

        Raises
        ------
        ValueError
            If the features are no finite matrix, or fewer than ``k``.
        """
        from sklearn.neighbors import NearestNeighbors

        features = self._prepared(as_real(features, "features", ndim=2))
        if len(features) < self.k:
            raise ValueError(f"features: expected at least k = {self.k} inputs, got {len(features)}")
        self._width = features.shape[1]
        self._index = NearestNeighbors(n_neighbors=self.k, algorithm="brute").fit(features)
        return self

    def score(self, features):
        """Distance to the k-th nearest of the remembered inputs: higher is stranger.

        Parameters
        ----------
        features : array, shape (N, D)
            Features of other inputs: a remembered one is its own nearest neighbour.

        Returns
        -------
        array, shape (N,), float64
            From 0 to 2 for features of length 1.

        Raises
        ------
        ValueError
            If nothing was fitted yet, or the features are not finite or of
            another width.
        """
        if not hasattr(self, "_index"):
            raise ValueError(
                "KNearestNeighbours: expected fit(features) to be called first, got no such call"
            )
        features = as_real(features, "features", ndim=2)
        if features.shape[1] != self._width:
            raise ValueError(f"features: expected {self._width} features an input, got {features.shape[1]}")
        distances, _ = self._index.kneighbors(self._prepared(features))
        return distances[:, -1].astype(np.float64)

    def _prepared(self, features):
        if not self.normalise:
            return features
        # By the largest entry first: squares of very small or large numbers leave float64.
        largest = np.abs(features).max(axis=1, keepdims=True)
        features = features / np.where(largest > 0, largest, 1)
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        return features / np.where(lengths > 0, lengths, 1)


def _as_features(features, name, width=None):
    """A float64 matrix. NaN is found later, in what is computed from it: a pass through memory less."""
    array = to_numpy(features, name)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name}: expected a non-empty matrix, shape (inputs, features), got {array.shape}")
    if width is not None and array.shape[1] != width:
        raise ValueError(f"{name}: expected {width} features an input, got {array.shape[1]}")
    return array.astype(np.float64, copy=False)


def _whitener(covariance, ridge):
    """The inverse of the lower Cholesky factor of covariance plus ridge."""
    lower, failed = lapack.dpotrf(covariance + ridge * np.eye(len(covariance)), lower=1, clean=1)
    while failed:  # a huge spread in one direction: rounding there exceeds the ridge
        ridge *= 10
        lower, failed = lapack.dpotrf(covariance + ridge * np.eye(len(covariance)), lower=1, clean=1)
    return lapack.dtrtri(lower, lower=1)[0]
