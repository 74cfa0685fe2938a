"""One protocol: what predicts names its parts alike, what ranks has a score that is higher for stranger.

What there is to hold against it is found in the package (``tools.protocol``);
a method without an example here fails.
"""

import copy
import functools
import inspect

import numpy as np
import pytest

import uqhelpers as uq
from tools import protocol
from uqhelpers import training
from uqhelpers._torch import torch
from uqhelpers.models import MLP

pytest.importorskip("jax")

nn = torch.nn
ENTRIES = {entry.name: entry for entry in protocol.entries()}
PREDICTORS = [name for name, entry in ENTRIES.items() if entry.predicts]
SCORERS = [name for name in ENTRIES if name not in PREDICTORS]
QUIET = {"progress": False, "device": "cpu"}

# --- a small world: two clouds and a line ------------------------------------------------------------------

RNG = np.random.default_rng(0)
LABELS = np.arange(60) % 2
CLOUDS = (RNG.normal(size=(60, 2)) + np.where(LABELS[:, None], 2, -2)).astype(np.float32)
X = np.linspace(-1, 1, 30, dtype=np.float32)[:, None]
Y = 2 * X[:, 0] + 0.1 * RNG.standard_normal(30)
FAMILIAR = np.array([[2.0, 2.0], [-2.0, -2.0]], np.float32)  # in the middle of the clouds
STRANGE = np.array([[0.0, 0.0], [0.1, -0.1]], np.float32)  # between them
AWAY = np.array([[30.0, -30.0], [-40.0, 30.0]], np.float32)


def quiet(function):
    """Made once, whoever asks."""
    return functools.lru_cache(maxsize=None)(function)


@quiet
def classifier(seed=0, dropout=0.2):
    with training.seeded(seed):
        net = MLP(2, 2, (16,), dropout=dropout)
    training.fit(net, CLOUDS, LABELS, epochs=40, learning_rate=1e-2, seed=seed, **QUIET)
    return net


@quiet
def regressor(outputs=1):
    with training.seeded(0):
        net = MLP(1, outputs, (16,), dropout=0.1)
    if outputs == 1:
        training.fit(net, X, Y, epochs=40, learning_rate=1e-2, loss="mse", **QUIET)
    return net


def features(inputs):
    return training.features(classifier(), inputs)


def logits(inputs):
    return training.predict_outputs(classifier(), inputs)


@quiet
def laplace(kind="classification"):
    if kind == "regression":
        return uq.laplace.LastLayerLaplace(regressor(), "regression", noise_std=0.1).fit(X, Y)
    return uq.laplace.LastLayerLaplace(classifier()).fit(CLOUDS, LABELS)


@quiet
def laplace_torch(kind="classification"):
    net = regressor() if kind == "regression" else classifier()
    targets = Y[:, None] if kind == "regression" else LABELS
    return uq.laplace.laplace_torch(net, X if kind == "regression" else CLOUDS, targets, likelihood=kind)


@quiet
def variational():
    with training.seeded(0):
        net = uq.variational_inference.make_variational(MLP(2, 2, (16,)))
    uq.variational_inference.fit_variational(net, CLOUDS, LABELS, epochs=5, **QUIET)
    return net


@quiet
def variational_regressor():
    with training.seeded(0):
        net = uq.variational_inference.make_variational(MLP(1, 1, (16,)))
    options = {"likelihood": "gaussian", "noise_std": 0.1}
    uq.variational_inference.fit_variational(net, X, Y, epochs=5, **options, **QUIET)
    return net


@quiet
def swag():
    fitted = uq.deep_ensembles.Swag(copy.deepcopy(classifier(dropout=0.0)), rank=3)
    return fitted.fit(CLOUDS, LABELS, epochs=4, **QUIET)


@quiet
def small_ensemble(kind):
    made = getattr(uq.deep_ensembles, kind)((8,), 2, epochs=5)
    return made.fit(CLOUDS, LABELS) if kind == "ClassificationEnsemble" else made.fit(X, Y)


@quiet
def drawn(kind):
    few = {"draws": 5, "warmup": 20, "progress": False}
    if kind == "classes":
        return uq.mcmc.network_posterior(CLOUDS, LABELS, (4,), **few)
    return uq.mcmc.network_posterior(X, Y, (4,), "gaussian", noise=0.1, **few)


@quiet
def density():
    return uq.ddu.GaussianFeatureDensity().fit(features(CLOUDS), LABELS)


@quiet
def confidnet():
    fitted = uq.confidnet.ConfidNet(copy.deepcopy(classifier()), hidden=(32,))
    more = np.random.default_rng(1).uniform(-3, 3, size=(200, 2)).astype(np.float32)
    labels = np.where(np.abs(more.sum(axis=1)) < 1.5, 1, more.sum(axis=1) > 0)  # it errs between the clouds
    return fitted.fit(more, labels.astype(int), epochs=60, learning_rate=1e-2, progress=False)


@quiet
def dirichlet(head):
    made = getattr(uq.evidential, head)()
    return (
        nn.Sequential(MLP(2, 2, (16,)), made)
        if head == "DirichletHead"
        else nn.Sequential(regressor(4), made)
    )


def line(inputs):
    return uq.bayesian_linear_regression.BayesianLinearRegression().fit(X, Y).predict(inputs)


@quiet
def smoothed():
    return uq.adversarial.Smoothed(classifier(), sigma=0.5)


# For each predictor: what is predicted, and how.
PREDICT = {
    "adversarial.Smoothed.predict": (CLOUDS, lambda x: smoothed().predict(x, draws=20)),
    "conformal.SplitClassifier.predict": (
        CLOUDS,
        lambda x: uq.conformal.SplitClassifier().fit(probs(CLOUDS), LABELS).predict(probs(x)),
    ),
    "conformal.SplitRegressor.predict": (
        X,
        lambda x: uq.conformal.SplitRegressor().fit(X[:, 0], Y).predict(np.asarray(x)[:, 0]),
    ),
    "bayesian_linear_regression.BayesianLinearRegression.predict": (X, line),
    "bayesian_linear_regression.StudentLinearRegression.predict": (
        X,
        lambda x: uq.bayesian_linear_regression.StudentLinearRegression().fit(X, Y).predict(x),
    ),
    "calibration.HistogramBinning.predict": (
        CLOUDS,
        lambda x: uq.calibration.HistogramBinning().fit(probs(CLOUDS), LABELS).predict(probs(x)),
    ),
    "calibration.IsotonicCalibration.predict": (
        CLOUDS,
        lambda x: uq.calibration.IsotonicCalibration().fit(probs(CLOUDS), LABELS).predict(probs(x)),
    ),
    "calibration.VectorScaling.predict": (
        CLOUDS,
        lambda x: uq.calibration.VectorScaling(0.1).fit(logits(CLOUDS), LABELS).predict(logits(x)),
    ),
    "confidnet.ConfidNet.predict": (CLOUDS, lambda x: confidnet().predict(x)),
    "ddu.predict": (CLOUDS, lambda x: uq.ddu.predict(classifier(), density(), x)),
    "deep_ensembles.ClassificationEnsemble.predict": (
        CLOUDS,
        lambda x: small_ensemble("ClassificationEnsemble").predict(x),
    ),
    "deep_ensembles.RegressionEnsemble.predict": (
        X,
        lambda x: small_ensemble("RegressionEnsemble").predict(x),
    ),
    "deep_ensembles.Swag.predict": (CLOUDS, lambda x: swag().predict(x, samples=3)),
    "deep_ensembles.predict": (
        CLOUDS,
        lambda x: uq.deep_ensembles.predict([classifier(0), classifier(1)], x),
    ),
    "deep_ensembles.predict_distilled": (
        CLOUDS,
        lambda x: uq.deep_ensembles.predict_distilled(classifier(), x),
    ),
    "evidential.predict": (CLOUDS, lambda x: uq.evidential.predict(dirichlet("DirichletHead"), x)),
    "evidential.predict_regression": (
        X,
        lambda x: uq.evidential.predict_regression(dirichlet("NormalInverseGammaHead"), x),
    ),
    "laplace.LaplaceTorch.predict": (CLOUDS, lambda x: laplace_torch().predict(x)),
    "laplace.LaplaceTorch.predict_regression": (
        X,
        lambda x: laplace_torch("regression").predict_regression(x),
    ),
    "laplace.LastLayerLaplace.predict": (CLOUDS, lambda x: laplace().predict(x)),
    "laplace.LastLayerLaplace.predict_regression": (
        X,
        lambda x: laplace("regression").predict_regression(x),
    ),
    "laplace.predict": (CLOUDS, lambda x: uq.laplace.predict(laplace(), x, samples=5)),
    "mc_dropout.predict": (CLOUDS, lambda x: uq.mc_dropout.predict(classifier(), x, passes=5)),
    "mc_dropout.predict_regression": (
        X,
        lambda x: uq.mc_dropout.predict_regression(regressor(), x, noise_std=0.1, passes=5),
    ),
    "mcmc.ClassificationPosterior.predict": (CLOUDS, lambda x: drawn("classes").predict(x)),
    "mcmc.RegressionPosterior.predict": (X, lambda x: drawn("numbers").predict(x)),
    "variational_inference.predict": (
        CLOUDS,
        lambda x: uq.variational_inference.predict(variational(), x, samples=5),
    ),
    "variational_inference.predict_regression": (
        X,
        lambda x: uq.variational_inference.predict_regression(
            variational_regressor(), x, noise_std=0.1, samples=5
        ),
    ),
}  # fmt: skip


def probs(inputs):
    return training.predict(classifier(), inputs)


# For each score: the scores of the familiar and of the strange.
SCORE = {
    "confidnet.ConfidNet.score": lambda: map(confidnet().score, (FAMILIAR, STRANGE)),
    "confidnet.TrustScore.score": lambda: [
        uq.confidnet.TrustScore(k=3).fit(CLOUDS, LABELS).score(x, probs(x).argmax(1))
        for x in (FAMILIAR, STRANGE)
    ],
    "ddu.GaussianFeatureDensity.score": lambda: [density().score(features(x)) for x in (FAMILIAR, AWAY)],
    "active_learning.score": lambda: [
        uq.active_learning.score(training.predict(classifier(), x), "entropy") for x in (FAMILIAR, STRANGE)
    ],
    "ddu.ddu_score": lambda: [
        uq.ddu.ddu_score(density().log_density(features(x))) for x in (FAMILIAR, AWAY)
    ],
    "first_classifier.Familiarity.score": lambda: map(
        uq.first_classifier.Familiarity(bandwidth=1.0).fit(CLOUDS).score, (FAMILIAR, AWAY)
    ),
    "odin.KNearestNeighbours.score": lambda: map(
        uq.odin.KNearestNeighbours(k=3, normalise=False).fit(CLOUDS).score, (FAMILIAR, AWAY)
    ),
    "odin.Mahalanobis.score": lambda: map(uq.odin.Mahalanobis().fit(CLOUDS, LABELS).score, (FAMILIAR, AWAY)),
    "odin.energy_score": lambda: [uq.odin.energy_score(logits(x)) for x in (FAMILIAR, STRANGE)],
    "odin.max_logit_score": lambda: [uq.odin.max_logit_score(logits(x)) for x in (FAMILIAR, STRANGE)],
    "odin.odin_score": lambda: [uq.odin.odin_score(classifier(), x) for x in (FAMILIAR, STRANGE)],
    "odin.softmax_score": lambda: [uq.odin.softmax_score(logits(x)) for x in (FAMILIAR, STRANGE)],
}  # fmt: skip


def test_every_method_of_the_book_is_found():
    chapters = {"calibration", "laplace", "mc_dropout", "deep_ensembles", "odin", "ddu", "evidential"}
    assert chapters <= set(protocol.methods())
    assert {name.split(".")[0] for name in ENTRIES} <= set(protocol.methods())


def test_every_predictor_and_every_score_has_its_example_here():
    assert set(PREDICTORS) == set(PREDICT)
    assert set(SCORERS) == set(SCORE)


@pytest.mark.parametrize("name", PREDICTORS)
def test_a_prediction_names_its_mean_and_the_parts_that_its_page_says(name):
    inputs, predict = PREDICT[name]
    answer = predict(inputs)
    if name in protocol.EXCEPTIONS:
        assert not hasattr(answer, "mean") or isinstance(answer, np.ndarray)
        return
    entry = ENTRIES[name]
    assert entry.answer is not None, "the docstring's Returns names no class"
    assert isinstance(answer, entry.answer)
    assert "mean" in entry.parts
    for part in entry.parts:
        values = np.asarray(getattr(answer, part))
        assert values.shape[0] == len(inputs)
        assert np.isfinite(values).all()
        assert (values >= 0).all() or part == "mean" or name == "ddu.predict"


@pytest.mark.parametrize("name", [name for name in PREDICTORS if name not in protocol.EXCEPTIONS])
def test_what_is_left_of_the_total_is_what_the_parts_leave(name):
    inputs, predict = PREDICT[name]
    answer, parts = predict(inputs), set(ENTRIES[name].parts)
    if {"total", "aleatoric", "epistemic"} <= parts:
        added = answer.aleatoric + answer.epistemic
        squared = np.hypot(answer.aleatoric, answer.epistemic)  # standard deviations add in square
        assert np.allclose(answer.total, added, atol=1e-6) or np.allclose(answer.total, squared, rtol=1e-6)
    # A confidence network has its own opinion of how far the classifier's answer is to be trusted.
    if {"mean", "confidence"} <= parts and name != "confidnet.ConfidNet.predict":
        assert np.allclose(answer.confidence, answer.mean.max(axis=-1), atol=1e-6)


@pytest.mark.parametrize("name", sorted(protocol.EXCEPTIONS))
def test_an_exception_is_one_and_has_a_reason(name):
    assert name in ENTRIES
    assert "mean" not in ENTRIES[name].parts
    assert len(protocol.EXCEPTIONS[name].split()) >= 4


@pytest.mark.parametrize("name", SCORERS)
def test_a_score_is_higher_for_stranger(name):
    familiar, strange = SCORE[name]()
    assert familiar.shape == strange.shape == (2,)
    assert familiar.max() < strange.min()


def test_what_says_how_sure_or_how_dense_also_scores():
    assert protocol.unranked() == []


def takes_inputs(name):
    return not {"inputs", "x"}.isdisjoint(inspect.signature(ENTRIES[name].call).parameters)


@pytest.mark.parametrize("name", [name for name in PREDICTORS if takes_inputs(name)])
def test_a_loader_predicts_what_its_array_does(name):
    inputs, predict = PREDICT[name]
    batched = torch.utils.data.DataLoader(torch.from_numpy(inputs), batch_size=len(inputs))
    by_array, by_loader = predict(inputs), predict(batched)
    for part in ENTRIES[name].parts or [...]:
        one, other = (x[...] if part is ... else getattr(x, part) for x in (by_array, by_loader))
        np.testing.assert_allclose(one, other, atol=1e-6)


# --- fitting ------------------------------------------------------------------------------------------------


def numbers(thing):
    """The numbers that something fitted predicts or scores."""
    return np.asarray(thing.mean if hasattr(thing, "mean") and not isinstance(thing, np.ndarray) else thing)


def fit_variational(*data):
    with training.seeded(0):
        net = uq.variational_inference.make_variational(MLP(2, 2, (4,)))
    uq.variational_inference.fit_variational(net, *data, epochs=2, **QUIET)
    return net


def fit_confidnet(*data):
    made = uq.confidnet.ConfidNet(copy.deepcopy(classifier()), hidden=(4,))
    return made.fit(*data, epochs=2, progress=False)


def fit_swag(*data):
    made = uq.deep_ensembles.Swag(copy.deepcopy(classifier(dropout=0.0)), rank=2)
    return made.fit(*data, epochs=2, **QUIET)


# For each fit: how it is called, and what is asked of it afterwards.
FIT = {
    "bayesian_linear_regression.BayesianLinearRegression.fit": (
        lambda *data: uq.bayesian_linear_regression.BayesianLinearRegression().fit(*data),
        lambda fitted: fitted.predict(X.copy()),
    ),
    "bayesian_linear_regression.StudentLinearRegression.fit": (
        lambda *data: uq.bayesian_linear_regression.StudentLinearRegression().fit(*data),
        lambda fitted: fitted.predict(X.copy()),
    ),
    "calibration.HistogramBinning.fit": (
        lambda *data: uq.calibration.HistogramBinning().fit(*data),
        lambda fitted: fitted.predict(probs(CLOUDS)),
    ),
    "calibration.IsotonicCalibration.fit": (
        lambda *data: uq.calibration.IsotonicCalibration().fit(*data),
        lambda fitted: fitted.predict(probs(CLOUDS)),
    ),
    "calibration.VectorScaling.fit": (
        lambda *data: uq.calibration.VectorScaling(0.1).fit(*data),
        lambda fitted: fitted.predict(logits(CLOUDS)),
    ),
    "conformal.SplitClassifier.fit": (
        lambda *data: uq.conformal.SplitClassifier().fit(*data),
        lambda fitted: fitted.predict(probs(CLOUDS)),
    ),
    "conformal.SplitRegressor.fit": (
        lambda *data: uq.conformal.SplitRegressor().fit(*data),
        lambda fitted: np.asarray(fitted.predict(X[:, 0])),
    ),
    "confidnet.ConfidNet.fit": (fit_confidnet, lambda fitted: fitted.score(CLOUDS)),
    "confidnet.TrustScore.fit": (
        lambda *data: uq.confidnet.TrustScore(k=3).fit(*data),
        lambda fitted: fitted.score(CLOUDS, LABELS),
    ),
    "ddu.GaussianFeatureDensity.fit": (
        lambda *data: uq.ddu.GaussianFeatureDensity().fit(*data),
        lambda fitted: fitted.score(CLOUDS),
    ),
    "deep_ensembles.ClassificationEnsemble.fit": (
        lambda *data: uq.deep_ensembles.ClassificationEnsemble((8,), 2, epochs=5).fit(*data),
        lambda fitted: fitted.predict(CLOUDS),
    ),
    "deep_ensembles.RegressionEnsemble.fit": (
        lambda *data: uq.deep_ensembles.RegressionEnsemble((8,), 2, epochs=5).fit(*data),
        lambda fitted: fitted.predict(X),
    ),
    "deep_ensembles.Swag.fit": (fit_swag, lambda fitted: fitted.predict(CLOUDS, samples=2)),
    "first_classifier.Familiarity.fit": (
        lambda points, *_: uq.first_classifier.Familiarity(1.0).fit(points),
        lambda fitted: fitted.score(CLOUDS),
    ),
    "laplace.LastLayerLaplace.fit": (
        lambda *data: uq.laplace.LastLayerLaplace(classifier()).fit(*data),
        lambda fitted: fitted.predict(CLOUDS),
    ),
    "odin.KNearestNeighbours.fit": (
        lambda features, *_: uq.odin.KNearestNeighbours(3, normalise=False).fit(features),
        lambda fitted: fitted.score(CLOUDS),
    ),
    "odin.Mahalanobis.fit": (
        lambda *data: uq.odin.Mahalanobis().fit(*data),
        lambda fitted: fitted.score(CLOUDS),
    ),
    "variational_inference.fit_variational": (
        fit_variational,
        lambda net: training.predict(net, CLOUDS),
    ),
}


def data_of(name):
    if name.startswith("calibration"):
        return (logits if "Vector" in name else probs)(CLOUDS), LABELS
    if name.startswith("conformal"):
        return (X[:, 0], Y) if "Regressor" in name else (probs(CLOUDS), LABELS)
    return (X, Y) if "Regression" in name else (CLOUDS, LABELS)


def test_every_fit_has_its_example_here():
    assert set(protocol.fitters()) == set(FIT)


@pytest.mark.filterwarnings("ignore:the classifier misreads")
@pytest.mark.parametrize("name", sorted(FIT))
def test_a_loader_fits_what_its_arrays_do(name):
    data = data_of(name)
    held = torch.utils.data.TensorDataset(*(torch.from_numpy(np.array(part)) for part in data))
    fit, ask = FIT[name]
    by_arrays = numbers(ask(fit(*data)))
    by_loader = numbers(ask(fit(torch.utils.data.DataLoader(held, batch_size=7))))
    np.testing.assert_allclose(by_arrays, by_loader, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore:the classifier misreads")
@pytest.mark.parametrize("name", sorted(FIT))
def test_a_mask_is_refused_where_something_is_fitted(name):
    inputs, targets = data_of(name)
    with pytest.raises(ValueError, match=r"^\w+: expected an array without a mask"):
        FIT[name][0](np.ma.masked_array(inputs, mask=inputs > 0), targets)


@pytest.mark.filterwarnings("ignore:the classifier misreads")
@pytest.mark.parametrize("name", sorted(FIT))
def test_what_is_fitted_does_not_change_with_the_arrays_it_was_fitted_to(name):
    fit, ask = FIT[name]
    inputs, targets = (np.array(part) for part in data_of(name))
    inputs = inputs.astype(np.float64)  # what needs no conversion is what might be kept
    fitted = fit(inputs, targets)
    before = numbers(ask(fitted)).copy()
    inputs[:], targets[:] = 1e3, 0
    assert np.array_equal(numbers(ask(fitted)), before)


@pytest.mark.filterwarnings("ignore:the classifier misreads")
@pytest.mark.parametrize("name", sorted(FIT))
def test_what_is_fitted_to_is_not_written_to(name):
    inputs, targets = (np.array(part) for part in data_of(name))
    inputs.flags.writeable = targets.flags.writeable = False
    FIT[name][0](inputs, targets)


def test_the_table_has_a_row_for_each_and_says_why_others_have_none():
    text = protocol.table()
    rows = [line.split(" | ") for line in text.splitlines() if "` | " in line]
    assert len(rows) == len(set(ENTRIES) - set(protocol.EXCEPTIONS))
    found = {what.strip("`"): names.rstrip(" |") for _, what, names in rows}
    assert found["Mahalanobis.score"] == "*a score*"
    assert found["Swag.predict"] == "mean, total, aleatoric, epistemic, confidence"
    assert all(f"- `{name}`: " in text for name in protocol.EXCEPTIONS)
