"""A second network beside a trained classifier, which learns how far to trust its answers."""

import copy
import functools
import warnings
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from uqhelpers import training
from uqhelpers._checks import as_choice, as_labels, as_number, as_whole
from uqhelpers._progress import bar
from uqhelpers._torch import torch
from uqhelpers.batches import as_inputs, as_network, as_tensor, gather
from uqhelpers.confidnet.lessons import confidence_loss, true_class_probability
from uqhelpers.dropout import dropout_on
from uqhelpers.training import evaluating, inputs_of, last_linear

__all__ = ["FEW_ERRORS", "ConfidNet", "ConfidNetHistory", "ConfidNetPrediction"]

nn = torch.nn

FEW_ERRORS = 30  # of the classifier's: with fewer to learn from, ``fit`` warns


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


@dataclass(frozen=True, eq=False)
class ConfidNetPrediction:
    """The classifier's answers, and how far each is to be trusted.

    Attributes
    ----------
    mean : array, shape (N, C)
        The classifier's own class probabilities.
    confidence : array, shape (N,)
        The predicted probability of the true class: not the largest entry of ``mean``.
    """

    mean: np.ndarray
    confidence: np.ndarray


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

    Examples
    --------
    >>> confidnet = ConfidNet(net).fit(images, labels)
    >>> confidnet.confidence(new_images)  # (N,), higher is surer
    >>> confidnet.predict(new_images).mean  # (N, C), what the classifier answers

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
        labels=None,
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
        inputs : array, shape (N, ...), or iterable of batches
            With errors enough to learn from. Those that the classifier was fitted
            to hold few, for it knows them by heart; those held out are seldom
            many. A few dozen errors need not suffice to rank failures as well as
            the largest probability does: compare, on further inputs. Or a
            ``DataLoader`` of pairs ``(inputs, labels)``.
        labels : array of int, shape (N,), optional
            True classes; a loader brings its own.
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
        progress : bool, whether a bar shows long work

        Returns
        -------
        ConfidNet, itself

        Raises
        ------
        ValueError
            If the network does not end in a linear layer or holds no dropout
            layer that could stay on, or the loss stops being finite.

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
        inputs, labels = gather(inputs, labels)
        tensor = as_inputs(inputs, self.model)
        source = _Encoder(self.model, tensor)
        lessons = _Lessons(source, tensor, labels, error_weight, batch_size, seed)
        with training.seeded(seed):
            network = _confidence_layers(lessons.features.shape[1], self.hidden).to(lessons.features)
            answers = source.all(tensor, dropout=True)[1] if dropout else lessons.logits
            wrong = _count_errors(answers, lessons.labels)
            seen = lessons.thinned if dropout else lessons.fixed
            first = lessons.learn(network, network.parameters(), rates[0], epochs, seen, progress)
        encoder, second = None, np.zeros(0)
        if fine_tune_epochs:
            encoder = source.copied()
            parameters = [*encoder.parameters(), *network.parameters()]
            seen = functools.partial(lessons.moving, encoder)
            second = lessons.learn(network, parameters, rates[1], fine_tune_epochs, seen, progress)
        training.expect_finite_weights(network, *([encoder.model] if encoder else []))
        # Kept only now: an interrupted second fit leaves the first as it was.
        self.network, self._encoder = network.eval().requires_grad_(False), encoder
        self.encoder = encoder.model.requires_grad_(False) if encoder else None
        self.history = ConfidNetHistory(first, second, wrong, len(lessons.labels))
        return self

    def confidence(self, inputs, batch_size=500):
        """The predicted probability of the true class, whatever that is.

        Parameters
        ----------
        inputs : array, shape (N, ...), or a loader that keeps their order
        batch_size : int, inputs at a time

        Returns
        -------
        array, shape (N,), float64
            In [0, 1], higher is surer that the classifier's answer is right.
        """
        if self.network is None:
            raise ValueError("fit: expected to be called first, got a network that has seen no data")
        tensor = as_inputs(inputs, self.model)
        encoder = self._encoder or _Encoder(self.model, tensor)
        values, _ = encoder.all(tensor, batch_size)
        with torch.inference_mode():
            # In double precision, where a sigmoid of 20 and one of 30 still differ: they shall be ranked.
            return self.network(values).double().sigmoid()[:, 0].cpu().numpy()

    def predict(self, inputs, batch_size=500):
        """The classifier's class probabilities, and the confidence in its answers.

        Parameters are those of :meth:`confidence`.

        Returns
        -------
        ConfidNetPrediction
        """
        tensor = as_inputs(inputs, self.model)
        confidence = self.confidence(tensor, batch_size)
        return ConfidNetPrediction(training.predict(self.model, tensor, batch_size), confidence)

    def score(self, inputs, batch_size=500):
        """Minus the confidence: higher is more uncertain, as every score of this package.

        Parameters are those of :meth:`confidence`.

        Returns
        -------
        array, shape (N,), from -1 to 0
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


class _Lessons:
    """What a classifier said of some inputs, what it should have said, and the steps that learn from it."""

    def __init__(self, source, inputs, labels, error_weight, batch_size, seed):
        self.source, self.inputs, self.error_weight = source, inputs, error_weight
        self.features, self.logits = source.all(inputs)
        self.labels = as_labels(labels, self.logits.shape[1], length=len(self.logits))
        self.batch_size, self.shuffle = batch_size, torch.Generator().manual_seed(seed)

    def fixed(self, batch):
        """Features and answers of some inputs, computed once."""
        return self.features[batch], self.logits[batch]

    def thinned(self, batch):
        """Those of the network with its dropout on."""
        return self.source.all(self._some(batch), self.batch_size, dropout=True)

    def moving(self, encoder, batch):
        """Features from an encoder that learns too, and the answers as they were."""
        return encoder(self._some(batch)), self.logits[batch]

    def _some(self, batch):
        return self.inputs[batch.to(self.inputs.device)]

    def learn(self, network, parameters, rate, epochs, seen, progress):
        """Mean loss of each epoch, while Adam moves the parameters."""
        step, losses, device = torch.optim.Adam(parameters, lr=rate), [], self.features.device
        right = as_tensor(self.labels).to(device)
        for _ in bar(range(epochs), progress, desc="training", unit="epoch"):
            order, total = torch.randperm(len(right), generator=self.shuffle).to(device), 0.0
            for batch in order.split(self.batch_size):
                features, answers = seen(batch)
                wanted, weights = self._wanted(answers, right[batch])
                loss = confidence_loss(network(features), wanted, weights)
                step.zero_grad()
                loss.backward()
                step.step()
                total += loss.item() * len(batch)
            losses.append(total / len(right))
            if not np.isfinite(losses[-1]):
                raise ValueError(f"learning_rate: training diverged to a loss of {losses[-1]}")
        return np.array(losses)

    def _wanted(self, logits, labels):
        """What the confidence in each answer should be, and how much it counts in the loss."""
        probs = logits.softmax(-1)
        weights = torch.where(probs.argmax(1) == labels, 1.0, self.error_weight)
        return probs.gather(1, labels[:, None])[:, 0], weights.to(probs)


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
            logits = self.model(batch.to(layer.weight.device, copy=True))
        return seen[-1], logits
