"""Failure prediction: which answers of a classifier are wrong, by confidences made for the purpose.

``ConfidNet`` is a second, small network beside a trained classifier. From what
the classifier's last layer sees it learns the probability that the classifier
gave to the *true* class, which is known while it is trained and not afterwards.
``TrustScore`` asks the neighbours of an input instead. ``failure_table`` puts
confidences side by side, with every figure that failure prediction is judged by.

Confidences keep their own sign, higher is surer; ``score`` is the same with the
sign of a score, higher is more uncertain.
"""

import copy
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from uqhelpers import metrics, training
from uqhelpers._checks import (
    as_choice,
    as_distributions,
    as_flags,
    as_labels,
    as_number,
    as_real,
    as_scores,
    as_whole,
    to_numpy,
)
from uqhelpers._progress import bar
from uqhelpers._torch import torch
from uqhelpers.dropout import dropout_on
from uqhelpers.training import as_inputs, as_network, evaluating, inputs_of, last_linear

__all__ = [
    "FEW_ERRORS",
    "ConfidNet",
    "ConfidNetHistory",
    "FailureFigures",
    "TrustScore",
    "confidence_loss",
    "failure_table",
    "true_class_probability",
]

nn = torch.nn

FEW_ERRORS = 30
"""With fewer wrong answers than this to learn from, ``ConfidNet.fit`` warns."""


# --- what is learned --------------------------------------------------------------------------------------


def true_class_probability(probs, labels):
    """The probability that a classifier gives to the class that is right.

    Parameters
    ----------
    probs : array, shape (N, C)
        Class probabilities.
    labels : array of int, shape (N,)
        The true classes.

    Returns
    -------
    array, shape (N,), float64
        In [0, 1]. Above 1/2 the answer is certainly right, below 1/C certainly
        wrong; between the two it may be either. Equal to the maximum class
        probability where the answer is right.

    Raises
    ------
    ValueError
        If a row is not a distribution, or the labels do not fit.

    References
    ----------
    Corbière et al. (2019), Addressing failure prediction by learning model
    confidence, section 2.2.
    """
    probs = as_distributions(probs, "NC")
    labels = as_labels(labels, probs.shape[1], length=len(probs))
    return np.take_along_axis(probs, labels[:, None], axis=1)[:, 0]


def confidence_loss(logits, targets, weights=None):
    """Mean squared distance of a predicted confidence from the true class probability.

    Parameters
    ----------
    logits : torch.Tensor, shape (N,) or (N, 1)
        What the confidence network puts out; its sigmoid is the confidence.
    targets : torch.Tensor, shape (N,)
        True class probabilities.
    weights : torch.Tensor, shape (N,), optional
        Of each input; they are not normalised.

    Returns
    -------
    torch.Tensor
        A number.

    Raises
    ------
    ValueError
        If the sizes differ.

    References
    ----------
    Corbière et al. (2019), eq. 4.
    """
    for name, values in {"targets": targets, "weights": weights}.items():
        if values is not None and values.numel() != logits.numel():
            raise ValueError(f"{name}: expected {logits.numel()} values, got shape {tuple(values.shape)}")
    squares = (logits.reshape(-1).sigmoid() - targets.reshape(-1)) ** 2
    return squares.mean() if weights is None else (weights.reshape(-1) * squares).mean()


# --- ConfidNet --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ConfidNetHistory:
    """What a confidence network learned from, and how it went.

    Attributes
    ----------
    loss : array, shape (epochs,)
        Mean training loss of each epoch of the first stage.
    fine_tune_loss : array, shape (fine_tune_epochs,)
        And of the second.
    errors : int
        How many of the inputs the classifier misreads (with ``dropout``: in one pass, thinned).
    inputs : int
        How many inputs there were.
    """

    loss: np.ndarray
    fine_tune_loss: np.ndarray
    errors: int
    inputs: int


class ConfidNet:
    """A network that learns how much to trust another one's answers.

    It reads what the classifier's last linear layer reads, passes it through
    linear layers ``uncertainty1``, ``uncertainty2``, ... with ReLU between, and
    puts out one number, the sigmoid of which is to be the probability that the
    classifier gave to the true class. The classifier is frozen: evaluation mode
    throughout (fixed batch normalisation; no dropout unless asked for), no
    parameter moves, and afterwards it is in the state in which it came.

    Parameters
    ----------
    model : torch.nn.Module
        A trained classifier whose output is that of a ``torch.nn.Linear``:
        logits, no softmax after it.
    hidden : sequence of int
        Widths of the hidden layers; the published network has four of 400, five
        layers in all.

    Attributes
    ----------
    model : torch.nn.Module
        The classifier, as given.
    network : torch.nn.Sequential or None
        The confidence network, once fitted.
    encoder : torch.nn.Module or None
        The fine-tuned copy of the classifier, if there was a second stage.
    history : ConfidNetHistory or None

    Raises
    ------
    ValueError
        If ``model`` is no network or a width is no positive whole number.

    Examples
    --------
    >>> confidnet = ConfidNet(net).fit(held_out_images, held_out_labels)
    >>> confidnet.confidence(new_images)  # (N,), higher is surer

    References
    ----------
    Corbière, Thome, Bar-Hen, Cord and Pérez (2019), Addressing failure
    prediction by learning model confidence.
    """

    def __init__(self, model, hidden=(400, 400, 400, 400)):
        self.model = as_network(model)
        try:
            self.hidden = tuple(as_whole(width, "hidden") for width in hidden)
        except TypeError as error:
            raise ValueError(f"hidden: expected a sequence of widths, got {hidden!r}") from error
        self.network = self.encoder = self.history = None

    def fit(
        self,
        inputs,
        labels,
        *,
        epochs=100,
        fine_tune_epochs=0,
        learning_rate=1e-3,
        fine_tune_rate=1e-5,
        batch_size=128,
        error_weight=1.0,
        dropout=False,
        seed=0,
        progress=True,
    ):
        """Learn the true class probability, in one stage or two.

        In the first stage the classifier's features are computed once and the
        confidence network is trained on them. In the second a *copy* of the
        classifier up to its last layer is trained together with it, at a low
        rate: the confidence may then look at other things than the classes do,
        and the classifier's own answers stay what they were.

        Parameters
        ----------
        inputs : array, shape (N, ...)
            Best such as the classifier was *not* fitted to: what it has learned
            by heart holds no errors, and nothing to learn from.
        labels : array of int, shape (N,)
            True classes.
        epochs, fine_tune_epochs : int
            Passes over the data in the two stages; the second is left out at 0.
        learning_rate, fine_tune_rate : float
            Of Adam, in the two stages. The authors take 1e-4 for hundreds of
            epochs of 54,000 images, and far less in the second stage.
        batch_size : int
            Inputs a step.
        error_weight : float
            How much more than a right answer a wrong one counts in the loss, at least 0.
        dropout : bool
            Whether the classifier's dropout stays on in the first stage, as in
            the authors' code. Each batch is then answered by a thinned network,
            whose own answers are the targets. It errs more often than the whole
            network does on images that this was fitted to: more to learn from,
            though about answers that will not be given.
        seed : int
            Seeds the first weights, the order of the batches and the dropout
            masks; the global generators are left as they were.
        progress : bool
            Whether a bar appears when it takes longer than two seconds.

        Returns
        -------
        ConfidNet
            Itself.

        Raises
        ------
        ValueError
            If the data are empty, not finite or of unequal length, a label does
            not fit, the network does not end in a linear layer or holds no
            dropout layer that could stay on, an argument is out of its range, or
            the loss stops being finite.

        Warns
        -----
        RuntimeWarning
            If the classifier misreads fewer than ``FEW_ERRORS`` of the inputs
            (with ``dropout``, thinned).

        References
        ----------
        Corbière et al. (2019), section 2.3.
        """
        epochs = as_whole(epochs, "epochs")
        fine_tune_epochs = as_whole(fine_tune_epochs, "fine_tune_epochs", low=0)
        rates = [
            as_number(rate, name, low=0, open_low=True)
            for name, rate in {"learning_rate": learning_rate, "fine_tune_rate": fine_tune_rate}.items()
        ]
        batch_size = as_whole(batch_size, "batch_size")
        error_weight = as_number(error_weight, "error_weight", low=0)
        dropout = as_choice(dropout, "dropout", (False, True))
        seed = as_whole(seed, "seed", low=0)
        tensor = as_inputs(inputs, self.model)
        source = _Encoder(self.model, tensor)
        fixed, logits = source.all(tensor)
        labels = as_labels(labels, logits.shape[1], length=len(logits))
        right, shuffle = torch.as_tensor(labels, device=fixed.device), torch.Generator().manual_seed(seed)

        def train(parameters, rate, epochs, confidence_and_answers):
            def loss(batch):
                confidence, answers = confidence_and_answers(batch)
                return confidence_loss(confidence, *_lesson(answers, right[batch], error_weight))

            def batches():
                return torch.randperm(len(fixed), generator=shuffle).to(fixed.device).split(batch_size)

            epochs = bar(range(epochs), progress, desc="training", unit="epoch")
            return _train(parameters, rate, epochs, batches, loss)

        def fixed_features(batch):
            return network(fixed[batch]), logits[batch]

        def thinned_features(batch):
            values, answers = source.all(tensor[batch.to(tensor.device)], batch_size, dropout=True)
            return network(values), answers

        def moving_features(batch):
            return network(encoder(tensor[batch.to(tensor.device)])), logits[batch]

        with training.seeded(seed):
            network = _confidence_layers(fixed.shape[1], self.hidden).to(fixed)
            wrong = _count_errors(source.all(tensor, dropout=True)[1] if dropout else logits, labels)
            seen = thinned_features if dropout else fixed_features
            first = train(network.parameters(), rates[0], epochs, seen)
        encoder, second = None, np.zeros(0)
        if fine_tune_epochs:
            encoder = source.copied()
            parameters = [*encoder.parameters(), *network.parameters()]
            second = train(parameters, rates[1], fine_tune_epochs, moving_features)
        # Kept only now: an interrupted second fit leaves the first as it was.
        self.network, self._encoder = network.eval().requires_grad_(False), encoder
        self.encoder = encoder.model.requires_grad_(False) if encoder else None
        self.history = ConfidNetHistory(first, second, wrong, len(labels))
        return self

    def confidence(self, inputs, batch_size=500):
        """The predicted probability of the true class, whatever that is.

        Parameters
        ----------
        inputs : array, shape (N, ...)
            Inputs.
        batch_size : int
            Inputs at a time.

        Returns
        -------
        array, shape (N,), float64
            In [0, 1], higher is surer that the classifier's answer is right.

        Raises
        ------
        ValueError
            If the inputs are empty or not finite, or nothing was fitted.
        """
        if self.network is None:
            raise ValueError("fit: expected to be called first, got a network that has seen no data")
        tensor = as_inputs(inputs, self.model)
        encoder = self._encoder or _Encoder(self.model, tensor)
        values, _ = encoder.all(tensor, batch_size)
        with torch.inference_mode():
            # In double precision, where a sigmoid of 20 and one of 30 still differ: they shall be ranked.
            return self.network(values).double().sigmoid()[:, 0].cpu().numpy()

    def score(self, inputs, batch_size=500):
        """Minus the confidence: higher is more uncertain, as every score of this package.

        Parameters
        ----------
        inputs : array, shape (N, ...)
            Inputs.
        batch_size : int
            Inputs at a time.

        Returns
        -------
        array, shape (N,), float64
            In [-1, 0].

        Raises
        ------
        ValueError
            As :meth:`confidence`.
        """
        return -self.confidence(inputs, batch_size)


def _confidence_layers(width, hidden):
    """``uncertainty1`` to ``uncertaintyK`` with ReLU between, one output."""
    layers = OrderedDict()
    for number, units in enumerate((*hidden, 1), start=1):
        layers[f"uncertainty{number}"] = nn.Linear(width, units)
        if number <= len(hidden):
            layers[f"relu{number}"] = nn.ReLU()
        width = units
    return nn.Sequential(layers)


def _lesson(logits, labels, error_weight):
    """What the confidence in each answer should be, and how much it counts in the loss."""
    probs = logits.softmax(-1)
    weights = torch.where(probs.argmax(1) == labels, 1.0, error_weight)
    return probs.gather(1, labels[:, None])[:, 0], weights.to(probs)


def _train(parameters, rate, epochs, batches, loss_of):
    """Mean loss of each epoch, while Adam moves the parameters."""
    step, losses = torch.optim.Adam(parameters, lr=rate), []
    for _ in epochs:
        total = count = 0
        for batch in batches():
            loss = loss_of(batch)
            step.zero_grad()
            loss.backward()
            step.step()
            total, count = total + loss.item() * len(batch), count + len(batch)
        losses.append(total / count)
        if not np.isfinite(losses[-1]):
            raise ValueError(f"learning_rate: training diverged to a loss of {losses[-1]}")
    return np.array(losses)


def _count_errors(logits, labels):
    """How many answers are wrong, with a warning if there are few."""
    probs = logits.double().softmax(-1).cpu().numpy()
    wrong, truth = int(np.sum(probs.argmax(axis=1) != labels)), true_class_probability(probs, labels)
    if wrong < FEW_ERRORS:
        warnings.warn(
            f"the classifier misreads {wrong} of these {len(labels)} inputs (mean true class "
            f"probability {truth.mean():.4f}): there is next to nothing to learn what a failure looks like "
            "from; take inputs that it was not fitted to, or harder ones",
            RuntimeWarning,
            stacklevel=3,
        )
    return wrong


class _Encoder:
    """A classifier up to its last linear layer, in evaluation mode (or with its dropout on)."""

    def __init__(self, model, inputs):
        self.model = model
        self.name = last_linear(model, inputs)
        classes = model.get_submodule(self.name).out_features
        if classes < 2:
            raise ValueError(f"model: expected a classifier with at least two outputs, got {classes}")

    def copied(self):
        """The same with weights of its own, all of which may move but those of the last layer."""
        other = copy.copy(self)
        other.model = copy.deepcopy(self.model).eval().requires_grad_(True)
        other.model.get_submodule(self.name).requires_grad_(False)
        other.model.zero_grad()
        return other

    def parameters(self):
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def __call__(self, batch):
        return self._both(batch)[0]

    def all(self, inputs, batch_size=500, dropout=False):
        """Features and logits of all inputs, without gradients."""
        tensor = as_inputs(inputs, self.model)
        with torch.no_grad():
            parts = [self._both(part, dropout) for part in tensor.split(as_whole(batch_size, "batch_size"))]
        return tuple(torch.cat(column) for column in zip(*parts, strict=True))

    def _both(self, batch, dropout=False):
        layer = self.model.get_submodule(self.name)
        with (dropout_on if dropout else evaluating)(self.model), inputs_of(layer) as seen:
            logits = self.model(batch.to(layer.weight.device))
        return seen[-1], logits


# --- trust score ------------------------------------------------------------------------------------------


class TrustScore:
    """How much nearer an input lies to its predicted class than to any other.

    The distance to the nearest training input of another class, over that to the
    nearest of the predicted class. Before, the ``alpha`` share of each class with
    the thinnest neighbourhood can be left out, so that outliers do not speak for
    their class.

    Parameters
    ----------
    k : int
        The radius that reaches so many inputs of its class, itself included,
        measures how thin an input's neighbourhood is.
    alpha : float
        Share of each class that is left out, in [0, 1).

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> trust = TrustScore(alpha=0.1).fit(training.features(net, images), labels)
    >>> trust.confidence(training.features(net, new_images), predicted)

    References
    ----------
    Jiang, Kim, Guan and Gupta (2018), To trust or not to trust a classifier,
    algorithms 1 and 2.
    """

    def __init__(self, k=10, alpha=0.0):
        self.k = as_whole(k, "k")
        self.alpha = as_number(alpha, "alpha", low=0, high=1)
        if self.alpha == 1:
            raise ValueError("alpha: expected a share in [0, 1), got 1, which leaves nothing")
        self._trees = None

    def fit(self, features, labels):
        """Take the training inputs in, class by class.

        Parameters
        ----------
        features : array, shape (N, D)
            Inputs, or better what the classifier's last layer sees of them
            (:func:`uqhelpers.training.features`).
        labels : array of int, shape (N,)
            Their true classes, at least two different ones.

        Returns
        -------
        TrustScore
            Itself.

        Raises
        ------
        ValueError
            If the features are no finite matrix, or the labels do not fit or
            name one class only.
        """
        from sklearn.neighbors import NearestNeighbors

        features = as_real(features, "features", ndim=2)
        labels = as_labels(labels, np.iinfo(np.int64).max, length=len(features))
        classes = np.unique(labels)
        if len(classes) < 2:
            raise ValueError(f"labels: expected at least two classes, got only class {classes[0]}")
        trees = {}
        for name in classes:
            members = features[labels == name]
            if self.alpha:
                near = min(self.k, len(members))
                radius = NearestNeighbors(n_neighbors=near).fit(members).kneighbors(members)[0][:, -1]
                members = members[radius <= np.quantile(radius, 1 - self.alpha)]
            trees[int(name)] = members, NearestNeighbors(n_neighbors=1).fit(members)
        self._trees, self._width = trees, features.shape[1]
        return self

    def confidence(self, features, predicted):
        """The ratio of the two distances.

        Parameters
        ----------
        features : array, shape (N, D)
            Of the inputs to be judged.
        predicted : array of int, shape (N,)
            What the classifier says they are.

        Returns
        -------
        array, shape (N,), float64
            From 0 to infinity, higher is surer; below 1 another class is nearer.
            Infinite on a training input of the predicted class, 1 on one that
            two classes share.

        Raises
        ------
        ValueError
            If the features have another width or are not finite, a predicted
            class had no training input, or nothing was fitted.
        """
        if self._trees is None:
            raise ValueError("fit: expected to be called first, got a trust score that has seen no data")
        features = as_real(features, "features", ndim=2)
        if features.shape[1] != self._width:
            raise ValueError(f"features: expected {self._width} columns, got {features.shape[1]}")
        known = np.array(list(self._trees))
        predicted = as_labels(predicted, np.iinfo(np.int64).max, "predicted", length=len(features))
        if not np.isin(predicted, known).all():
            strange = predicted[~np.isin(predicted, known)][0]
            raise ValueError(f"predicted: expected classes that were fitted, {known}, got {strange}")
        distances = np.stack([_nearest(features, *tree) for tree in self._trees.values()], axis=1)
        own = known == predicted[:, None]
        nearest_own, nearest_other = distances[own], np.where(own, np.inf, distances).min(axis=1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = nearest_other / nearest_own
        return np.where((nearest_own == 0) & (nearest_other == 0), 1.0, ratio)

    def score(self, features, predicted):
        """Minus the ratio: higher is more uncertain, as every score of this package.

        Parameters
        ----------
        features, predicted
            As in :meth:`confidence`.

        Returns
        -------
        array, shape (N,), float64
            At most 0, down to minus infinity.

        Raises
        ------
        ValueError
            As :meth:`confidence`.
        """
        return -self.confidence(features, predicted)


def _nearest(points, members, tree):
    """Distance to the nearest member; computed afresh, for the tree's own may suffer from cancellation."""
    place = tree.kneighbors(points, return_distance=False)[:, 0]
    return np.linalg.norm(points - members[place], axis=1)


# --- side by side -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FailureFigures:
    """Every figure by which a confidence is judged as a predictor of failures.

    Attributes
    ----------
    fpr95 : float
        False-positive rate where 95 % of the *correct* answers are accepted;
        lower is better. The positive class is the correct one.
    aupr_error, aupr_success : float
        Average precision of finding the wrong ones by low confidence, and the
        right ones by high confidence. Their ``prevalence``, what chance reaches,
        is the error rate and the accuracy.
    auroc : float
        The chance that a right answer is surer than a wrong one.
    aurc, eaurc, augrc : float
        Areas under the risk–coverage curve: as it is, above that of a perfect
        ranking, and of the generalised curve; lower is better.
    errors, inputs : int
        How many answers were wrong, and of how many.
    """

    fpr95: float
    aupr_error: float
    aupr_success: float
    auroc: float
    aurc: float
    eaurc: float
    augrc: float
    errors: int
    inputs: int

    def as_dict(self):
        """All figures by name."""
        return asdict(self)


def failure_table(confidences, wrong):
    """Confidences side by side, as predictors of failures.

    Parameters
    ----------
    confidences : dict of str to array, shape (N,)
        By the name of the method; higher is surer, infinities may occur.
    wrong : array of bool, shape (N,), or dict
        Whether each answer was wrong. A dict, by the same names, where methods
        give answers of their own (an ensemble, MC-Dropout): then they differ
        in their errors too, and only ``aurc`` and ``augrc`` charge for both.

    Returns
    -------
    dict of str to FailureFigures

    Raises
    ------
    ValueError
        If names or lengths differ, or a confidence is NaN.

    Warns
    -----
    RuntimeWarning
        If all answers are right, or all wrong: what is undefined then is NaN.

    References
    ----------
    Corbière et al. (2019), section 4.1; Geifman, Uziel and El-Yaniv (2019);
    Traub et al. (2024).
    """
    if not isinstance(confidences, Mapping) or not confidences:
        raise ValueError(
            f"confidences: expected arrays by the name of the method, got {type(confidences).__name__}"
        )
    flags = wrong if isinstance(wrong, Mapping) else dict.fromkeys(confidences, wrong)
    if set(flags) != set(confidences):
        raise ValueError(f"wrong: expected flags for {sorted(confidences)}, got {sorted(flags)}")
    table = {}
    for name, values in confidences.items():
        surer = as_scores(values, f"confidences[{name!r}]")
        failed = as_flags(to_numpy(flags[name], "wrong"), "wrong", length=len(surer))
        table[name] = FailureFigures(
            fpr95=metrics.fpr95(surer, ~failed, "correct"),
            aupr_error=metrics.aupr_error(-surer, failed),
            aupr_success=metrics.aupr_success(-surer, failed),
            auroc=metrics.auroc(surer, ~failed, "correct"),
            aurc=metrics.aurc(-surer, failed),
            eaurc=metrics.eaurc(-surer, failed),
            augrc=metrics.augrc(-surer, failed),
            errors=int(failed.sum()),
            inputs=len(failed),
        )
    return table
