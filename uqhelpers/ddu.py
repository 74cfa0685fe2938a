"""Deep deterministic uncertainty: how strange an input is, from one pass through one network.

The softmax's entropy says how contested the answer is (aleatoric). The density
of the features, of the values that the last layer sees, says how far the input
is from what the network was trained on (epistemic). ``GaussianFeatureDensity``
is that density: one Gaussian a class, weighed by the class's share.

A density of features can notice what is strange only if the network has not
mapped it onto something familiar. ``ResidualNet`` has the two ingredients that
keep a network from doing so: shortcuts, and convolutions whose norm is capped.
``conv_spectral_norm`` is the norm of the convolution itself. The one of its
reshaped weights, which libraries normalise by, is another number.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack
from scipy.special import logsumexp, softmax

from uqhelpers._checks import as_labels, as_number, as_scores, as_whole, to_numpy
from uqhelpers._torch import torch
from uqhelpers.metrics import predictive_entropy
from uqhelpers.models import Standardise, _as_image_shape
from uqhelpers.training import as_inputs, evaluating, features_and_outputs

nn, functional = torch.nn, torch.nn.functional

__all__ = [
    "DDUPrediction",
    "GaussianFeatureDensity",
    "ResidualNet",
    "SpectralNormConv2d",
    "conv_spectral_norm",
    "ddu_score",
    "predict",
    "quantile",
]

ROWS = 512  # of features at a time: with their product they fit a core's cache
ANY_CLASS = np.iinfo(np.int64).max


# --- the density of features ------------------------------------------------------------------------------


class GaussianFeatureDensity:
    """One Gaussian a class over the features, with full covariance and the class's share as its weight.

    Gaussian discriminant analysis, used for its density. All of it is computed
    in float64. A ridge of ``jitter`` times the average variance within the
    classes is added to every diagonal, the same for all classes, so that
    features which are constant, linearly dependent or more than there are
    inputs do no harm.

    Parameters
    ----------
    jitter : float
        Relative ridge, above 0.

    Attributes
    ----------
    means : array, shape (C, D)
        Mean of each class.
    covariances : array, shape (C, D, D)
        Maximum-likelihood covariance of each class, without the ridge.
    log_priors : array, shape (C,)
        Logarithm of each class's share of the labels.
    ridge : float
        What is added to the diagonals, in squared units of the features (more
        for a class whose covariance still cannot be factorised).

    Raises
    ------
    ValueError
        If ``jitter`` is not a number above 0.

    References
    ----------
    Mukhoti et al. (2023), Deep deterministic uncertainty, section 4.
    """

    def __init__(self, jitter=1e-6):
        self.jitter = as_number(jitter, "jitter", low=0, open_low=True)

    def fit(self, features, labels, classes=None):
        """Estimate all Gaussians; whatever was fitted or calibrated before is forgotten.

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
        GaussianFeatureDensity
            Itself.

        Raises
        ------
        ValueError
            If the features are no finite matrix or do not vary at all, the
            labels do not fit them, or a class has fewer than two inputs.
        """
        features = _as_features(features, "features")
        classes = None if classes is None else as_whole(classes, "classes")
        labels = as_labels(labels, ANY_CLASS if classes is None else classes, length=len(features))
        counts = np.bincount(labels, minlength=0 if classes is None else classes)
        if counts.min() < 2:
            raise ValueError(
                f"labels: expected at least 2 inputs of each of {len(counts)} classes, "
                f"got {counts.min()} of class {counts.argmin()}"
            )
        by_class = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
        with np.errstate(over="ignore", invalid="ignore"):
            moments = [_mean_and_covariance(features, members) for members in by_class]
        means, covariances = (np.stack(part) for part in zip(*moments, strict=True))
        ridge = self.jitter * _average_variance(means, covariances, counts)
        log_priors = np.log(counts / counts.sum())
        # From here on nothing can fail: a density that could not be fitted again stays what it was.
        whiteners = [_whitener(covariance, ridge) for covariance in covariances]
        self.means, self.covariances, self.log_priors, self.ridge = means, covariances, log_priors, ridge
        self._whiteners = np.stack(whiteners)
        diagonals = np.diagonal(self._whiteners, axis1=1, axis2=2)
        width = features.shape[1]
        self._constants = log_priors + np.log(diagonals).sum(axis=1) - 0.5 * width * np.log(2 * np.pi)
        self._ends = features[[0, -1]].copy()
        self._held_out = None
        return self

    def log_joint(self, features):
        """Logarithm of share times density, class by class.

        Parameters
        ----------
        features : array, shape (N, D)
            Features of any inputs.

        Returns
        -------
        array, shape (N, C), float64
            In nats; the density's units are those of the features.

        Raises
        ------
        ValueError
            If nothing was fitted yet, or the features are not finite or of
            another width.
        """
        self._check_fitted()
        features = _as_features(features, "features", width=self.means.shape[1])
        distances = np.empty((len(features), len(self.means)))
        for start in range(0, len(features), ROWS):
            part = slice(start, start + ROWS)
            for label, (mean, whitener) in enumerate(zip(self.means, self._whiteners, strict=True)):
                # The whitener is triangular, and BLAS skips the half that is zero.
                white = blas.dtrmm(1.0, whitener.T, (features[part] - mean).T, trans_a=1, overwrite_b=1)
                distances[part, label] = np.einsum("dn,dn->n", white, white)
        if not np.isfinite(distances).all():
            raise ValueError("features: expected finite numbers, got NaN, infinity or numbers too large")
        return self._constants - 0.5 * distances

    def log_density(self, features):
        """Logarithm of the mixture's density: low where the input is strange.

        Parameters, exceptions
            As :meth:`log_joint`.

        Returns
        -------
        array, shape (N,), float64
            In nats.
        """
        return logsumexp(self.log_joint(features), axis=1)

    def class_probabilities(self, features):
        """What the Gaussians themselves would answer: Gaussian discriminant analysis.

        Parameters, exceptions
            As :meth:`log_joint`.

        Returns
        -------
        array, shape (N, C), float64
            Probabilities.
        """
        return softmax(self.log_joint(features), axis=1)

    def calibrate(self, held_out):
        """Remember the densities of held-out inputs, for :meth:`quantile`.

        Parameters
        ----------
        held_out : array, shape (M, D)
            Features of inputs that neither the network nor the density was
            fitted to. Training features have higher densities than new ones,
            and everything new would look strange beside them.

        Returns
        -------
        GaussianFeatureDensity
            Itself.

        Raises
        ------
        ValueError
            As :meth:`log_joint`; also if these are the very features that the
            density was fitted to.
        """
        self._check_fitted()
        held_out = _as_features(held_out, "held_out", width=self.means.shape[1])
        if np.array_equal(held_out[[0, -1]], self._ends):
            raise ValueError(
                "held_out: expected features of inputs held out from training, "
                "got those that the density was fitted to"
            )
        self._held_out = np.sort(self.log_density(held_out))
        return self

    def quantile(self, features):
        """The share of held-out inputs whose density is at most as high.

        Parameters
        ----------
        features : array, shape (N, D)
            Features of any inputs.

        Returns
        -------
        array, shape (N,), float64
            From 0 (stranger than every held-out input) to 1. Of inputs like
            the held-out ones, a share ``a`` lies below ``a``, roughly.

        Raises
        ------
        ValueError
            As :meth:`log_joint`; also before :meth:`calibrate`.
        """
        if getattr(self, "_held_out", None) is None:
            raise ValueError(
                "quantile: expected calibrate(held_out) to be called after fit, got no such call"
            )
        return quantile(self.log_density(features), self._held_out)

    @property
    def calibrated(self):
        """Whether :meth:`quantile` can be asked."""
        return getattr(self, "_held_out", None) is not None

    def _check_fitted(self):
        if not hasattr(self, "means"):
            raise ValueError("density: expected fit(features, labels) to be called first, got no such call")


def ddu_score(log_density):
    """Minus the log density: higher is stranger, as every score of this package.

    Parameters
    ----------
    log_density : array, shape (N,)
        From :meth:`GaussianFeatureDensity.log_density`.

    Returns
    -------
    array, shape (N,), float64
        In nats.

    Raises
    ------
    ValueError
        If the densities are no non-empty vector without NaN.
    """
    return -as_scores(log_density, "log_density")


def quantile(log_density, held_out):
    """Where densities stand among those of held-out inputs: their empirical distribution function.

    Parameters
    ----------
    log_density : array, shape (N,)
        Log densities of any inputs.
    held_out : array, shape (M,)
        Log densities of inputs that nothing was fitted to.

    Returns
    -------
    array, shape (N,), float64
        The share of held-out inputs whose density is at most as high, from 0 to 1.

    Raises
    ------
    ValueError
        If one of them is no non-empty vector without NaN.
    """
    ranked = np.sort(as_scores(held_out, "held_out"))
    return np.searchsorted(ranked, as_scores(log_density, "log_density"), side="right") / len(ranked)


def _as_features(features, name, width=None):
    """A float64 matrix. NaN is found later, in what is computed from it: a pass through memory less."""
    array = to_numpy(features, name)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name}: expected a non-empty matrix, shape (inputs, features), got {array.shape}")
    if width is not None and array.shape[1] != width:
        raise ValueError(f"{name}: expected {width} features an input, got {array.shape[1]}")
    return array.astype(np.float64, copy=False)


def _mean_and_covariance(features, members):
    """Of some rows, block by block, so that each row is fetched from memory once."""
    width = features.shape[1]
    shift = features[members[:ROWS]].mean(axis=0)  # near the mean: no digits cancel below
    total, products = np.zeros(width), np.zeros((width, width), order="F")
    for start in range(0, len(members), ROWS):
        block = features[members[start : start + ROWS]]
        block -= shift
        total += np.ones(len(block)) @ block
        products = blas.dsyrk(1.0, block.T, beta=1.0, c=products, overwrite_c=1)  # upper half only
    drift = total / len(members)
    covariance = np.triu(products) + np.triu(products, 1).T
    return shift + drift, covariance / len(members) - np.outer(drift, drift)


def _average_variance(means, covariances, counts):
    """Average variance of a feature within the classes, or between them where there is none within."""
    shares = counts / counts.sum()
    variances = np.diagonal(covariances, axis1=1, axis2=2)
    within = (shares @ np.maximum(variances, 0)).mean()
    between = (shares @ (means - shares @ means) ** 2).mean()
    if not np.isfinite(within + between):
        raise ValueError("features: expected finite numbers, got NaN, infinity or numbers too large")
    # What rounding leaves of a constant is no variance.
    floor = (1e-14 * np.abs(means).max()) ** 2
    if max(within, between) <= floor:
        raise ValueError("features: expected features that vary, got the same values for every input")
    return within if within > 1e-12 * between + floor else between


def _whitener(covariance, ridge):
    """The inverse of the lower Cholesky factor of covariance plus ridge."""
    ridged = covariance + ridge * np.eye(len(covariance))
    lower, failed = lapack.dpotrf(ridged, lower=1, clean=1)
    while failed:  # a huge spread in one direction: rounding there exceeds the ridge
        ridge *= 10
        lower, failed = lapack.dpotrf(covariance + ridge * np.eye(len(covariance)), lower=1, clean=1)
    return lapack.dtrtri(lower, lower=1)[0]


# --- the norm of a convolution ----------------------------------------------------------------------------


def conv_spectral_norm(weight, input_shape, stride=1, padding=0, *, tolerance=1e-9, steps=2000):
    """The largest factor by which a convolution can stretch an image: its true operator norm.

    Power iteration with the convolution and its transpose. The spectral norm of
    the weights reshaped to a matrix, by which libraries normalise, belongs to
    another operator and may be several times smaller.

    Parameters
    ----------
    weight : array or tensor, shape (outputs, inputs, kernel height, kernel width)
        The kernels.
    input_shape : tuple of int
        (channels, height, width) of the images, or (height, width): the norm
        depends on it.
    stride, padding : int or pair of int
        As in ``torch.nn.functional.conv2d``; padding is with zeros.
    tolerance : float
        Relative change of the norm in one step below which the iteration ends.
    steps : int
        At most so many steps.

    Returns
    -------
    float
        The norm, from below: relative error well under 1e-4 unless ``steps`` cut it short.

    Raises
    ------
    ValueError
        If the weights are not finite or not four-dimensional, or the shapes do
        not fit together.

    References
    ----------
    Gouk et al. (2021), Regularisation of neural networks by enforcing Lipschitz
    continuity; Yoshida and Miyato (2017), Spectral norm regularization.
    """
    tensor = weight.detach() if torch.is_tensor(weight) else torch.from_numpy(to_numpy(weight, "weight"))
    if tensor.ndim != 4 or tensor.numel() == 0:
        raise ValueError(f"weight: expected shape (out, in, height, width), got {tuple(tensor.shape)}")
    tensor = tensor.double()
    if not torch.isfinite(tensor).all():
        raise ValueError("weight: expected finite numbers, got NaN or infinity")
    size = _as_size(input_shape, tensor.shape[1])
    stride, padding = _as_pair(stride, "stride", 1), _as_pair(padding, "padding", 0)
    tolerance = as_number(tolerance, "tolerance", low=0)
    direction = _random_direction((1, tensor.shape[1], *size), tensor)
    if any(size[i] + 2 * padding[i] < tensor.shape[2 + i] for i in (0, 1)):
        raise ValueError(f"input_shape: expected images no smaller than the kernel, got {input_shape!r}")
    return _converged_norm(tensor, direction, stride, padding, tolerance, as_whole(steps, "steps"))


def _converged_norm(weight, direction, stride, padding, tolerance, steps):
    norm = 0.0
    with torch.no_grad():
        for _ in range(steps):
            direction, previous = _power_step(weight, direction, stride, padding), norm
            norm = functional.conv2d(direction, weight, stride=stride, padding=padding).norm().item()
            if abs(norm - previous) <= tolerance * norm:
                break
    return norm


def _power_step(weight, direction, stride, padding):
    """One step of power iteration on (transpose of the convolution) ∘ (convolution)."""
    stretched = functional.conv2d(direction, weight, stride=stride, padding=padding)
    back = torch.nn.grad.conv2d_input(direction.shape, weight, stretched, stride=stride, padding=padding)
    return functional.normalize(back, dim=(1, 2, 3), eps=1e-30)


def _random_direction(shape, like):
    """A random image of norm 1, always the same: the global generators are left alone."""
    start = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (start / start.norm()).to(like)


class SpectralNormConv2d(nn.Conv2d):
    """A convolution whose operator norm is capped: at most ``coefficient``, smaller if it wants to be.

    The weights are divided by max(1, norm / coefficient). (torch's own
    ``spectral_norm`` divides by the norm whatever it is, which forces it to 1,
    and by another norm.) While the network is trained, the norm is followed by
    one step of power iteration a pass; in evaluation mode it is computed until
    it no longer changes.

    Parameters
    ----------
    in_channels, out_channels, kernel_size, stride, padding, bias
        As ``torch.nn.Conv2d``, without dilation and groups.
    input_shape : tuple of int
        (channels, height, width) or (height, width) of the images: the norm
        depends on it.
    coefficient : float
        The cap, above 0.

    Raises
    ------
    ValueError
        If the coefficient is not above 0 or the shapes do not fit; in
        ``forward``, if images of another size come.

    References
    ----------
    Mukhoti et al. (2023), Deep deterministic uncertainty; Miyato et al. (2018),
    Spectral normalization for generative adversarial networks.
    """

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        input_shape,
        coefficient=3.0,
        *,
        stride=1,
        padding=0,
        bias=True,
    ):
        self.coefficient = as_number(coefficient, "coefficient", low=0, open_low=True)
        in_channels = as_whole(in_channels, "in_channels")
        stride, padding = _as_pair(stride, "stride", 1), _as_pair(padding, "padding", 0)
        self.image_size = _as_size(input_shape, in_channels)
        super().__init__(
            in_channels, as_whole(out_channels, "out_channels"), kernel_size, stride, padding, bias=bias
        )
        shape = (1, in_channels, *self.image_size)
        self.register_buffer("direction", _random_direction(shape, self.weight.detach()))
        self._known = None  # the converged norm, and of which weights

    def forward(self, images):
        """Convolve with the capped weights."""
        if images.shape[-2:] != self.image_size:
            raise ValueError(
                f"images: expected size {self.image_size}, for which the norm is capped, "
                f"got {tuple(images.shape[-2:])}"
            )
        return self._conv_forward(images, self.capped_weight(), self.bias)

    def capped_weight(self):
        """The weights that the convolution uses."""
        norm = self._followed_norm() if self.training else self._exact_norm()
        if not self.training:
            return self.weight / max(1.0, norm / self.coefficient)
        return self.weight / torch.clamp(norm / self.coefficient, min=1.0)

    def spectral_norm(self):
        """The operator norm of the capped convolution, a float of at most ``coefficient``."""
        norm = self._exact_norm()
        return norm / max(1.0, norm / self.coefficient)

    def _followed_norm(self):
        """An estimate that costs one step and through which gradients flow to the weights."""
        with torch.no_grad():
            self.direction.copy_(_power_step(self.weight, self.direction, self.stride, self.padding))
        # A copy: the next pass may move the buffer before this pass's gradient is computed.
        return functional.conv2d(
            self.direction.clone(), self.weight, stride=self.stride, padding=self.padding
        ).norm()

    def _exact_norm(self):
        """The norm to three digits and more; computed once for given weights, and no buffer moves."""
        weight = self.weight.detach().double()
        # Two sums and not torch's version counter, which does not see what is written to ``weight.data``.
        fingerprint = weight.sum().item(), weight.norm().item()
        if self._known is None or self._known[0] != fingerprint:
            arguments = weight, self.direction.double(), self.stride, self.padding
            self._known = fingerprint, _converged_norm(*arguments, tolerance=1e-7, steps=1000)
        return self._known[1]


def _as_size(input_shape, channels):
    """(height, width) of images with so many channels."""
    try:
        shape = tuple(as_whole(size, "input_shape") for size in input_shape)
    except TypeError as error:
        raise ValueError(f"input_shape: expected (channels, height, width), got {input_shape!r}") from error
    if len(shape) not in (2, 3) or (len(shape) == 3 and shape[0] != channels):
        raise ValueError(f"input_shape: expected ({channels}, height, width), got {input_shape!r}")
    return shape[-2:]


def _as_pair(value, name, low):
    values = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(values) != 2:
        raise ValueError(f"{name}: expected a whole number or two of them, got {value!r}")
    return tuple(as_whole(entry, name, low=low) for entry in values)


# --- a network that keeps strange inputs strange ----------------------------------------------------------


class ResidualNet(nn.Module):
    """A small residual network with capped convolutions, averages for downsampling and leaky ReLUs.

    A 3 × 3 convolution; then, as long as there are 4 pixels a side, the image
    is halved by averaging and passes a residual block of two 3 × 3 convolutions
    (8 × 8: twice; 28 × 28: three times); the average over what is left, which
    is the feature vector; class logits.

    Parameters
    ----------
    image_shape : tuple of int
        (channels, height, width); height and width at least 8.
    classes : int
        Number of classes.
    coefficient : float or None
        Cap on the norm of each convolution; ``None`` leaves them as they are.
    mean, std : float
        With which the pixels are standardised.
    width : int
        Channels, and so features.
    shortcuts : bool
        Whether the blocks add their input to their output. Without, and with
        ``coefficient=None``, it is a plain convolutional network of the same size.

    Raises
    ------
    ValueError
        If the image is too small, or a number is out of range.

    References
    ----------
    Mukhoti et al. (2023), Deep deterministic uncertainty, section 4; He et al.
    (2016), Deep residual learning for image recognition.
    """

    def __init__(
        self,
        image_shape=(1, 28, 28),
        classes=10,
        coefficient=3.0,
        mean=0.0,
        std=1.0,
        *,
        width=32,
        shortcuts=True,
    ):
        super().__init__()
        channels, *size = _as_image_shape(image_shape, smallest=8)
        width = as_whole(width, "width")

        def convolution(inputs, size):
            if coefficient is None:
                return nn.Conv2d(inputs, width, 3, padding=1)
            return SpectralNormConv2d(inputs, width, 3, tuple(size), coefficient, padding=1)

        layers = [Standardise(mean, std), convolution(channels, size), nn.LeakyReLU()]
        while min(size) >= 4:
            size = [length // 2 for length in size]
            block = _Block(convolution(width, size), convolution(width, size), shortcuts)
            layers += [nn.AvgPool2d(2), block]
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.output = nn.Linear(width, as_whole(classes, "classes", low=2))

    def forward(self, images):
        """Logits, shape (N, classes)."""
        return self.output(self.body(images))


class _Block(nn.Module):
    """x + f(x), f two convolutions with a leaky ReLU before each."""

    def __init__(self, first, second, shortcut):
        super().__init__()
        self.first, self.second, self.shortcut = first, second, bool(shortcut)

    def forward(self, images):
        change = self.second(functional.leaky_relu(self.first(functional.leaky_relu(images))))
        return images + change if self.shortcut else change


# --- one pass ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DDUPrediction:
    """Everything that one pass through one network says.

    Attributes
    ----------
    probs : array, shape (N, C)
        Class probabilities.
    aleatoric : array, shape (N,)
        Entropy of the softmax in nats: how contested the answer is. To be
        believed only where the input is not strange.
    log_density : array, shape (N,)
        Log density of the features in nats.
    epistemic : array, shape (N,)
        Minus the log density: how strange the input is.
    quantile : array, shape (N,), or None
        The share of held-out inputs that are at least as strange; ``None``
        for a density without calibration.
    """

    probs: np.ndarray
    aleatoric: np.ndarray
    log_density: np.ndarray
    epistemic: np.ndarray
    quantile: np.ndarray | None


def predict(model, density, inputs, batch_size=500):
    """Probabilities, aleatoric and epistemic uncertainty of each input, from one pass.

    Parameters
    ----------
    model : torch.nn.Module
        A classifier that puts out logits and ends in a ``torch.nn.Linear``;
        left in the state in which it came.
    density : GaussianFeatureDensity
        Fitted to :func:`uqhelpers.training.features` of the training inputs.
    inputs : array, shape (N, ...)
        Inputs.
    batch_size : int
        Inputs at a time.

    Returns
    -------
    DDUPrediction
        With the quantile of the density where the density was calibrated.

    Raises
    ------
    ValueError
        As :func:`uqhelpers.training.features`; also if the density is not fitted, or to features
        of another width.

    References
    ----------
    Mukhoti et al. (2023), Deep deterministic uncertainty.
    """
    if not isinstance(density, GaussianFeatureDensity):
        raise ValueError(f"density: expected a GaussianFeatureDensity, got {type(density).__name__}")
    density._check_fitted()
    values, logits = features_and_outputs(model, inputs, batch_size)
    probs = softmax(logits, axis=1)
    log_density = density.log_density(values)
    place = quantile(log_density, density._held_out) if density.calibrated else None
    return DDUPrediction(probs, predictive_entropy(probs), log_density, ddu_score(log_density), place)
