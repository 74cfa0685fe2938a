"""What other libraries answer on the inputs of ``cases``, written to ``stored.json``.

``python -m tests.peers.record`` in an environment that holds the libraries
(``make peers`` makes one) evaluates all of them. The ordinary tests read what
is stored, and evaluate anew what is installed beside them.

Each function below is one library's answers, by name; what fails because the
library is not there is stored as skipped, with the reason.
"""

import contextlib
import importlib.metadata
import json
import logging
import warnings
from pathlib import Path

import numpy as np

from tests.peers.cases import fingerprint, make_cases
from tests.peers.chains import chains

STORED = Path(__file__).with_name("stored.json")
LEVELS = np.linspace(0.05, 0.95, 15)  # probability levels of the regression curves
BINS = 10
PASSES = 4000  # of MC-Dropout
LONG = "x 400"  # chains by whose names the diagnostics that agree are compared
ATTACK = {"epsilon": 0.125, "size": 0.03125, "steps": 10}  # in pixels
ENERGY_TEMPERATURES = (1.0, 0.5, 1000.0)
# Temperature, step, and whether the images count as divided by a standard deviation.
ODIN_SETTINGS = (
    (1.0, 0.0, False),
    (1000.0, 0.0, False),
    (1.0, 0.01, False),
    (1000.0, 0.0014, False),
    (1000.0, 0.01, True),
)


def scikit_learn(cases):
    """Ranking figures, scoring rules and the reliability curve."""
    from sklearn import metrics as theirs
    from sklearn.calibration import calibration_curve

    found = {}
    detection = cases["detection"]
    false, true, _ = theirs.roc_curve(detection["strange"], detection["score"], drop_intermediate=False)
    found["auroc"] = theirs.roc_auc_score(detection["strange"], detection["score"])
    found["aupr"] = theirs.average_precision_score(detection["strange"], detection["score"])
    found["fpr95"] = false[np.argmax(true >= 0.95)]
    precision, recall, _ = theirs.precision_recall_curve(detection["strange"], detection["score"])
    found["aupr by trapezoid"] = theirs.auc(recall, precision)
    one = cases["one class"]
    found["auroc of one class"] = theirs.roc_auc_score(one["strange"], one["score"])
    found["aupr of one class"] = theirs.average_precision_score(one["strange"], one["score"])

    drawn, impossible, binary = cases["drawn"], cases["impossible"], cases["binary"]
    found["accuracy"] = theirs.accuracy_score(drawn["labels"], drawn["probs"].argmax(axis=1))
    found["nll"] = theirs.log_loss(drawn["labels"], drawn["probs"])
    found["nll of the impossible"] = theirs.log_loss(impossible["labels"], impossible["probs"], labels=[0, 1])
    found["brier"] = theirs.brier_score_loss(drawn["labels"], drawn["probs"])
    found["brier of two classes"] = theirs.brier_score_loss(binary["labels"], binary["probs"][:, 1])
    top = drawn["probs"].max(axis=1)
    correct = drawn["probs"].argmax(axis=1) == drawn["labels"]
    found["reliability curve"] = calibration_curve(correct, top, n_bins=BINS)
    return found


def scipy(cases):
    """Entropies, the temperature by a bounded search, densities and the CRPS as an integral."""
    from scipy import integrate, optimize, special, stats

    found = {}
    sampled, regression = cases["sampled"]["probs"], cases["regression"]
    found["predictive entropy"] = special.entr(sampled.mean(axis=0)).sum(axis=1)
    found["expected entropy"] = special.entr(sampled).sum(axis=2).mean(axis=0)
    found["entropy of one-hot"] = stats.entropy(cases["one-hot"]["probs"], axis=1)
    found["temperature"] = []
    labels = cases["temperature"]["labels"]
    for factor in cases["temperature"]["factors"]:
        logits = factor * cases["temperature"]["logits"]

        def loss(temperature, logits=logits):
            scaled = logits / temperature
            return (special.logsumexp(scaled, axis=1) - scaled[np.arange(len(labels)), labels]).mean()

        search = optimize.minimize_scalar(
            loss, bounds=(0.02, 90), method="bounded", options={"xatol": 1e-9, "maxiter": 500}
        )
        found["temperature"].append(search.x)

    mean, std, y = (regression[key] for key in ("mean", "std", "y"))
    found["gaussian nll"] = -stats.norm(mean, std).logpdf(y).mean()
    lower, upper = stats.norm(mean, std).interval(0.9)
    found["coverage"] = ((lower <= y) & (y <= upper)).mean()
    found["width"] = (upper - lower).mean()
    scores = []
    for centre, spread, target in zip(mean[:20], std[:20], y[:20], strict=True):
        ends = centre - 12 * spread, centre + 12 * spread
        below, _ = integrate.quad(
            lambda x, m=centre, s=spread: special.ndtr((x - m) / s) ** 2, ends[0], target
        )
        above, _ = integrate.quad(
            lambda x, m=centre, s=spread: special.ndtr((m - x) / s) ** 2, target, ends[1]
        )
        scores.append(below + above)
    found["crps of the first 20"] = np.mean(scores)
    return found


def torchmetrics(cases):
    """Calibration error and ranking figures."""
    from torchmetrics.functional import classification as theirs

    def ece(case, norm="l1", bins=BINS):
        probs, labels = tensors(case, "probs", "labels")
        classes = probs.shape[1]
        return theirs.multiclass_calibration_error(probs, labels, num_classes=classes, n_bins=bins, norm=norm)

    found = {
        "ece": ece(cases["drawn"]),
        "mce": ece(cases["drawn"], "max"),
        "ece of certainty": ece(cases["certain"]),
        "ece on an edge": ece(cases["edge"]),
        "ece of two": ece(cases["two"]),
    }
    for name in ("detection", "large scores"):
        score, strange = tensors(cases[name], "score", "strange")
        if name == "detection":  # into [0, 1]: what lies outside is sent through a sigmoid
            score = (score - score.min()) / (score.max() - score.min())
        found[f"auroc of {name}"] = theirs.binary_auroc(score.float(), strange.long())
        found[f"aupr of {name}"] = theirs.binary_average_precision(score.float(), strange.long())
    one = tensors(cases["one class"], "score", "strange")
    found["auroc of one class"] = theirs.binary_auroc(one[0].float(), one[1].long())
    found["aupr of one class"] = theirs.binary_average_precision(one[0].float(), one[1].long())
    return found


def netcal(cases):
    """Calibration errors, a temperature, and regression figures."""
    from netcal.metrics import ACE, ECE, MCE, NLL, PICP
    from netcal.scaling import TemperatureScaling

    def measured(metric, case):
        return metric.measure(case["probs"], case["labels"])

    found = {
        "ece": measured(ECE(BINS), cases["drawn"]),
        "mce": measured(MCE(BINS), cases["drawn"]),
        "ece of equal mass": measured(ECE(BINS, equal_intervals=False), cases["drawn"]),
        "ace": measured(ACE(BINS), cases["drawn"]),
        "ece of certainty": measured(ECE(BINS), cases["certain"]),
        "ece on an edge": measured(ECE(BINS), cases["edge"]),
        "ece of two": measured(ECE(BINS), cases["two"]),
        "ece of binary": measured(ECE(BINS), cases["binary"]),
    }
    try:
        found["ece of a missing class"] = measured(ECE(BINS), cases["missing class"])
    except RuntimeError as error:
        found["ece of a missing class"] = f"{type(error).__name__}: {error}"

    found["temperature"] = []
    for factor in cases["temperature"]["factors"]:
        # It takes probabilities and goes back to logits by itself.
        logits = factor * cases["temperature"]["logits"]
        scaling = TemperatureScaling()
        scaling.fit(softmax(logits), cases["temperature"]["labels"])
        found["temperature"].append(1 / float(np.squeeze(scaling.weights)))

    mean, std, y = (cases["regression"][key] for key in ("mean", "std", "y"))
    found["gaussian nll"] = NLL().measure((mean, std), y, reduction="mean")
    interval = PICP().measure((mean, std), y, q=np.array([0.9]), reduction="mean")
    found["coverage"], found["width"] = np.squeeze(interval.picp), np.squeeze(interval.mpiw)
    return found


def baal(cases):
    """Heuristics of active learning. Its axes are inputs, classes, samples."""
    from baal.active.heuristics import BALD, BatchBALD, Certainty, Entropy, Margin
    from baal.bayesian.dropout import MCDropoutModule

    sampled = cases["sampled"]["probs"].transpose(1, 2, 0)
    logits = cases["sampled"]["logits"].transpose(1, 2, 0)
    alike = BALD().compute_score(cases["same members"]["probs"].transpose(1, 2, 0))
    undecided = softmax(cases["orientation"]["logits"])
    model = MCDropoutModule(network(cases["dropout"])).eval()
    with seeded():
        ranked = np.asarray(BatchBALD(num_samples=5, num_draw=4000)(sampled)).tolist()
    return {
        **sampled_network(cases, lambda inputs: model(inputs)),
        **moved_buffers(lambda model, inputs: MCDropoutModule(model)(inputs)),
        "mutual information": BALD().compute_score(sampled),
        "place of the best input in a batch of five": ranked.index(int(np.asarray(BALD()(sampled))[0])),
        "smallest mutual information of same members": alike.min(),
        "share of it below 0": (alike < 0).mean(),
        "predictive entropy": Entropy().compute_score(sampled),
        "predictive entropy of logits": Entropy().compute_score(logits),
        "entropy of one-hot": Entropy().compute_score(cases["one-hot"]["probs"]),
        "margin": Margin().compute_score(sampled),
        "certainty": Certainty().compute_score(sampled),
        "certainty, clear and undecided": Certainty().compute_score(undecided),
        "margin, clear and undecided": Margin().compute_score(undecided),
        "entropy, clear and undecided": Entropy().compute_score(undecided),
    }


def pytorch_ood(cases):
    """Outlier scores and the figures that judge them. Its label for the strange is negative."""
    from pytorch_ood.detector import MCD, EnergyBased, Entropy, MaxLogit, MaxSoftmax, TemperatureScaling
    from pytorch_ood.metrics import functional as theirs

    from uqhelpers._torch import torch

    found = {}
    for name in ("detection", "large scores", "all tied"):
        score, strange = tensors(cases[name], "score", "strange")
        kind = -strange.long()
        found[f"auroc of {name}"] = theirs.auroc(score, kind)
        found[f"aupr of {name}"] = theirs.aupr(score, kind)
        found[f"fpr95 of {name}"] = theirs.fpr_at_tpr(score, kind)
    one = tensors(cases["one class"], "score", "strange")
    try:
        found["auroc of one class"] = theirs.auroc(one[0], -one[1].long())
    except ValueError as error:
        found["auroc of one class"] = f"{type(error).__name__}: {error}"

    probs, labels = tensors(cases["drawn"], "probs", "labels")
    top, predicted = probs.max(dim=1)
    correct = (predicted == labels).long()
    found["ece of equal mass"] = theirs.calibration_error(top, correct, p="1", beta=len(top) // BINS)
    found["accuracy over coverage"] = theirs.aurra(top, correct)
    tied = tensors(cases["ties"], "probs", "first", "last", "spread")
    for name, classes in zip(("first", "last", "spread"), tied[1:], strict=True):
        found[f"accuracy over coverage, errors {name}"] = theirs.aurra(tied[0][:, 1], classes)

    found["temperature"] = []
    for factor in cases["temperature"]["factors"]:
        logits, labels = tensors(cases["temperature"], "logits", "labels")
        detector = TemperatureScaling(None).fit_logits((factor * logits).float(), labels)
        found["temperature"].append(detector.t)

    logits = tensors(cases["orientation"], "logits")[0]
    for detector in (MaxSoftmax, MaxLogit, EnergyBased, Entropy):
        found[f"{detector.__name__}, clear and undecided"] = detector.score(logits)
    found["entropy of one-hot"] = Entropy.score(tensors(cases["one-hot"], "logits")[0])

    inputs = tensors(cases["dropout"], "inputs")[0]
    model = network(cases["dropout"])
    with seeded():
        found["dropout mean"] = MCD.run_mean(model, inputs, PASSES)
    found["variance without dropout"] = MCD(without_dropout(model), samples=10)(inputs)
    found.update(moved_buffers(lambda model, inputs: MCD(model, samples=2)(inputs)))
    found.update(out_of_distribution(cases))
    return found


def out_of_distribution(cases):
    """pytorch-ood's detectors: from logits, from a network's gradient, and from features."""
    from pytorch_ood.detector import ODIN, EnergyBased, Mahalanobis, MaxLogit
    from pytorch_ood.metrics import functional as theirs

    logits = tensors(cases["drawn"], "logits")[0][:60]
    found = {"max logit": MaxLogit.score(logits)}
    for temperature in ENERGY_TEMPERATURES:
        found[f"energy, T = {temperature:g}"] = EnergyBased.score(logits, t=temperature)
    model, (images,) = classifier(cases["images"]), tensors(cases["images"], "images")
    for temperature, epsilon, scaled in ODIN_SETTINGS:
        std = cases["images"]["std"].tolist() if scaled else None
        detector = ODIN(model, eps=epsilon, temperature=temperature, norm_std=std)
        found[odin_name(temperature, epsilon, scaled)] = detector(images)
    for name in ("plain", "dependent", "small"):
        known, labels, new, strange = tensors(cases["features"], name, "labels", f"{name}, new", "strange")
        score = Mahalanobis(None).fit_features(known.float(), labels).predict_features(new.float())
        found[f"Mahalanobis, {name}"] = score
        found[f"auroc of Mahalanobis, {name}"] = theirs.auroc(score, -strange.long())
    return found


def torch_uncertainty(cases):
    """Metrics of classification and regression. Its axes are inputs, samples, classes."""
    from torch import distributions
    from torch.utils.data import DataLoader, TensorDataset
    from torch_uncertainty import losses, ood_criteria
    from torch_uncertainty import metrics as theirs
    from torch_uncertainty.methods import mc_dropout
    from torch_uncertainty.post_processing import TemperatureScaler

    def measured(metric, *arguments):
        metric.update(*arguments)
        return metric.compute()

    found = {}
    for name, case in (("", "drawn"), (" of few", "few")):
        both = tensors(cases[case], "probs", "labels")
        found[f"aurc{name}"] = measured(theirs.AURC(), *both)
        found[f"augrc{name}"] = measured(theirs.AUGRC(), *both)
    drawn = tensors(cases["drawn"], "probs", "labels")
    found["nll"] = measured(theirs.CategoricalNLL(), *drawn)
    found["brier"] = measured(theirs.BrierScore(num_classes=5), *drawn)
    found["nll of the impossible"] = measured(
        theirs.CategoricalNLL(), *tensors(cases["impossible"], "probs", "labels")
    )

    def calibration(case, labels="labels", **options):
        probs, labels = tensors(case, "probs", labels)
        classes = probs.shape[1]
        return measured(
            theirs.CalibrationError("multiclass", num_bins=BINS, num_classes=classes, **options),
            probs,
            labels,
        )

    found["ece"] = calibration(cases["drawn"])
    found["mce"] = calibration(cases["drawn"], norm="max")
    found["ece of equal mass"] = calibration(cases["drawn"], adaptive=True)
    found["ece of certainty"] = calibration(cases["certain"])
    found["classwise ece"] = measured(theirs.ClasswiseCalibrationError(5, BINS), *drawn)
    for order in ("first", "last"):
        found[f"ece of equal mass, errors {order}"] = calibration(cases["saturated"], order, adaptive=True)
    for order in ("first", "last", "spread"):
        tied = tensors(cases["ties"], "probs", order)
        found[f"aurc, errors {order}"] = measured(theirs.AURC(), *tied)
        found[f"augrc, errors {order}"] = measured(theirs.AUGRC(), *tied)

    for name in ("detection", "all tied", "one class"):
        both = tensors(cases[name], "score", "strange")
        found[f"fpr95 of {name}"] = measured(theirs.FPR95(pos_label=1), *both)
    detection = tensors(cases["detection"], "score", "strange")
    found["fpr95 of the familiar"] = measured(theirs.FPR95(pos_label=0), -detection[0], detection[1])

    samples = tensors(cases["sampled"], "probs")[0]
    inputs_first = samples.transpose(0, 1)
    alike = tensors(cases["same members"], "probs")[0].transpose(0, 1)
    found["mutual information"] = measured(theirs.MutualInformation(reduction="none"), inputs_first)
    for reduction in ("none", "sum"):
        information = measured(theirs.MutualInformation(reduction=reduction), alike)
        found[f"mutual information of same members, {reduction}"] = information.sum()
    found["entropy of samples"] = measured(theirs.Entropy(reduction="none"), inputs_first)
    found["entropy of one-hot"] = measured(
        theirs.Entropy(reduction="none"), tensors(cases["one-hot"], "probs")[0]
    )
    found["variation ratio"] = measured(theirs.VariationRatio(reduction="none"), samples)
    found["variation ratio by votes"] = measured(
        theirs.VariationRatio(probabilistic=False, reduction="none"), samples
    )

    found["temperature"] = []
    for factor in cases["temperature"]["factors"]:
        logits, labels = tensors(cases["temperature"], "logits", "labels")
        scaler = TemperatureScaler()
        loader = DataLoader(TensorDataset((factor * logits).float(), labels), batch_size=500)
        scaler.fit(loader, progress=False)
        found["temperature"].append(scaler.temperature[0])

    model = mc_dropout(network(cases["dropout"]), num_estimators=1).eval()
    found.update(sampled_network(cases, model))
    try:
        mc_dropout(without_dropout(network(cases["dropout"])), num_estimators=2)
    except ValueError as error:
        found["no dropout"] = type(error).__name__
    found.update(moved_buffers(lambda model, inputs: mc_dropout(model, num_estimators=2).eval()(inputs)))

    logits = tensors(cases["orientation"], "logits")[0]
    for name in ("MaxSoftmax", "MaxLogit", "Energy", "Entropy"):
        criterion = getattr(ood_criteria, f"{name}Criterion")()
        given = logits if name in ("MaxLogit", "Energy") else logits.softmax(dim=-1)
        found[f"{name}, clear and undecided"] = criterion(given if name == "MaxSoftmax" else given[:, None])

    mean, std, y = tensors(cases["regression"], "mean", "std", "y")
    normal = distributions.Normal(mean, std)
    found["gaussian nll"] = measured(theirs.DistributionNLL(), normal, y)
    found["calibration error"] = measured(theirs.QuantileCalibrationError(num_bins=len(LEVELS)), normal, y)
    ends = normal.icdf(mean.new_tensor(0.05)), normal.icdf(mean.new_tensor(0.95))
    found["coverage"] = measured(theirs.IntervalCoverage(), *ends, y)
    found["width"] = measured(theirs.MeanIntervalWidth(), *ends)

    evidence, labels = tensors(cases["evidence"], "evidence", "labels")
    for kind in ("mse", "log", "digamma"):
        for weight in (0.0, 0.5):
            loss = losses.DECLoss(reg_weight=weight, loss_type=kind, reduction="none")
            found[f"evidential {kind}, penalty {weight:g}"] = loss(evidence, labels)[:, 0]
    return found | first_ranks(cases)


def foolbox(cases):
    """Attacks on a small network: images after one step and after many, in pixels."""
    from foolbox import PyTorchModel
    from foolbox.attacks import L2PGD, LinfFastGradientAttack, LinfPGD

    case = cases["images"]
    model, (images,) = classifier(case), tensors(case, "images")
    labels = model(images).argmax(dim=1)
    fast = LinfFastGradientAttack(random_start=False)
    many = {"abs_stepsize": ATTACK["size"], "steps": ATTACK["steps"], "random_start": False}

    def attacked(attack, model, images, **options):
        wrapped = PyTorchModel(model, bounds=(0, 1), device="cpu", **options)
        return attack(wrapped, images, labels, epsilons=ATTACK["epsilon"])[1]

    found = {
        "fgsm": attacked(fast, model, images),
        "pgd": attacked(LinfPGD(**many), model, images),
        "pgd, Euclidean": attacked(L2PGD(**many), model, images),
    }
    scale = {"mean": [0.5, 0.5, 0.5], "std": case["std"].tolist(), "axis": -3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they divide a list by hand
        found["fgsm, standardised"] = attacked(fast, model, images, preprocessing=scale)
    found["fgsm, moved by a sure network"] = share_moved(
        attacked(fast, sure(model), images.float()), images.float()
    )
    return found


def torchattacks(cases):
    """The same attacks, and what is left of a dropout that was on."""
    import torchattacks as theirs

    from uqhelpers._torch import torch

    case = cases["images"]
    model, (images,) = classifier(case), tensors(case, "images")
    labels = model(images).argmax(dim=1)
    epsilon, size, steps = ATTACK["epsilon"], ATTACK["size"], ATTACK["steps"]
    found = {
        "fgsm": theirs.FGSM(model, eps=epsilon)(images, labels),
        "pgd": theirs.PGD(model, eps=epsilon, alpha=size, steps=steps, random_start=False)(images, labels),
    }
    found["fgsm, moved by a sure network"] = share_moved(
        theirs.FGSM(sure(model), eps=epsilon)(images.float(), labels), images.float()
    )
    dropped = torch.nn.Sequential(torch.nn.Dropout(0.5), model).eval()
    dropped[0].train()
    theirs.FGSM(dropped, eps=epsilon)(images, labels)
    found["dropout still on"] = dropped[0].training
    standardised = (images - 0.5) / tensors(case, "std")[0][:, None, None]
    moved = theirs.FGSM(model, eps=epsilon)(standardised, labels) - standardised
    found["fgsm, farthest of standardised pixels"] = moved.abs().max()
    return found


def share_moved(attacked, images):
    """Of the pixels that are away from the ends of their range, the share that an attack moved."""
    inside = (images > 0.2) & (images < 0.8)
    return ((attacked - images).abs() > 1e-6)[inside].double().mean()


def sure(model):
    """The same network in single precision, its logits a thousand times as large."""
    from copy import deepcopy

    from uqhelpers._torch import torch

    loud = deepcopy(model).float()
    with torch.no_grad():
        loud[3].weight.mul_(1000)
    return loud


def uncertainty_toolbox(cases):
    """Figures of predicted Gaussians."""
    import uncertainty_toolbox as theirs

    mean, std, y = (cases["regression"][key] for key in ("mean", "std", "y"))
    found = {
        "gaussian nll": theirs.nll_gaussian(mean, std, y),
        "crps": theirs.crps_gaussian(mean, std, y),
        "calibration error": theirs.mean_absolute_calibration_error(mean, std, y, num_bins=11),
        "sharpness": theirs.sharpness(std),
    }
    for kind in ("interval", "quantile"):
        curve = theirs.get_proportion_lists(mean, std, y, num_bins=11, prop_type=kind)
        found[f"curve of {kind}s"] = curve[1]
    bounds = theirs.metrics_calibration.get_prediction_interval(mean, std, np.array([0.9]))
    found["coverage"] = ((bounds.lower <= y) & (y <= bounds.upper)).mean()
    return found


def popular_recipe(cases):
    """Temperature scaling as many repositories copy it: start at 1.5, 50 steps of LBFGS with rate .01."""
    from uqhelpers._torch import torch

    found = {"temperature": []}
    for factor in cases["temperature"]["factors"]:
        logits, labels = tensors(cases["temperature"], "logits", "labels")
        logits = (factor * logits).float()
        temperature = torch.full((1,), 1.5, requires_grad=True)
        optimiser = torch.optim.LBFGS([temperature], lr=0.01, max_iter=50)

        def closure(logits=logits, labels=labels, temperature=temperature, optimiser=optimiser):
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(logits / temperature, labels)
            loss.backward()
            return loss

        optimiser.step(closure)
        found["temperature"].append(temperature)
    return found


def mapie(cases):
    """Thresholds of split conformal regression, and coverage of adaptive sets."""
    from mapie.classification import SplitConformalClassifier
    from mapie.regression import SplitConformalRegressor
    from sklearn.base import ClassifierMixin, RegressorMixin

    from benchmarks.bench_conformal import Column, Given

    found = {"ranks": []}
    for n in cases["ranks"]["sizes"]:
        model = SplitConformalRegressor(
            type("Zero", (RegressorMixin, Column), {})(0), confidence_level=0.9, prefit=True
        )
        model.conformalize(np.zeros((n, 1)), np.arange(1.0, n + 1))
        found["ranks"].append(model.predict_interval(np.zeros((1, 1)))[1].ravel()[1])
    case, size = cases["sets"], cases["sets"]["inputs"][0]
    covered = {"True": [], "False": [], "randomized": []}
    for start in range(0, len(case["labels"]), size):
        probs, labels = case["probs"][start : start + size], case["labels"][start : start + size]
        model = SplitConformalClassifier(
            type("Given", (ClassifierMixin, Given), {})(6),
            confidence_level=0.9,
            conformity_score="aps",
            prefit=True,
            random_state=start,
        )
        model.conformalize(probs[:200], labels[:200])
        for name, coverage in covered.items():
            last = {"True": True, "False": False}.get(name, name)
            sets = model.predict_set(probs[200:], conformity_score_params={"include_last_label": last})[1]
            coverage.append(sets[np.arange(size - 200), labels[200:], 0].mean())
    return found | {f"coverage of APS, last class {name}": np.mean(v) for name, v in covered.items()}


def crepes(cases):
    """Thresholds of split conformal regression."""
    from crepes import ConformalRegressor

    found = []
    for n in cases["ranks"]["sizes"]:
        model = ConformalRegressor()
        model.fit(np.arange(1.0, n + 1))
        found.append(model.predict_int(np.zeros(1), confidence=0.9)[0, 1])
    return {"ranks": found}


def puncc(cases):
    """The weighted quantile at the rank, and the size of a set by how many inputs are asked about at once."""
    from deel.puncc.api.prediction_sets import raps_set
    from deel.puncc.api.utils import quantile

    alike = cases["alike"]["probs"]

    def size(times):
        return len(raps_set(np.repeat(alike, times, axis=0), 0.95, 0, 1, rand=False)[0][0])

    return {
        "ranks": [quantile(np.arange(1.0, n + 1), 0.9 * (n + 1) / n) for n in cases["ranks"]["sizes"]],
        "set of one input": size(1),
        "set of one among fifty": size(50),
    }


def probly(cases):
    """Entropies of credal sets, in nats."""
    with standing_in("mpltern"):
        from probly.quantification import classification as theirs

    probs = cases["members"]["probs"].transpose(1, 0, 2)
    names = "lower_entropy", "upper_entropy", "lower_entropy_convex_hull", "upper_entropy_convex_hull"
    found = {name: getattr(theirs, name)(probs, base=np.e) for name in names}
    return found | {f"mean of {name}": values.mean() for name, values in found.items()}


def scikit_activeml(cases):
    """BatchBALD: the batch, and the largest information that it says some labels hold together."""
    from skactiveml.pool._bald import batch_bald

    found = {}
    for name, options in (("by default", {}), ("1,000 draws", {"n_MC_samples": 1000})):
        scores = batch_bald(cases["sampled"]["probs"].copy(), 5, random_state=0, **options)
        found[f"batch, {name}"] = np.nanargmax(scores, axis=1)
        found[f"largest information, {name}"] = np.nanmax(scores)
    return found


def blackjax(cases):
    """Both of its R̂, and its effective sample sizes, of chains of an even number of draws."""
    from blackjax import diagnostics as theirs

    even = {name: draws for name, draws in chains().items() if draws.shape[1] % 2 == 0}
    found = {f"R̂, {name}": theirs.potential_scale_reduction(draws) for name, draws in even.items()}
    for kind in ("rhat", "ess_bulk", "ess_tail"):
        found[kind] = [getattr(theirs, kind)(draws) for name, draws in even.items() if LONG in name]
    return found


def numpyro(cases):
    """Its R̂ and effective sample size."""
    from numpyro import diagnostics as theirs

    found = {}
    for name, draws in chains().items():
        found[f"R̂, {name}"] = theirs.split_gelman_rubin(draws)
        found[f"effective, {name}"] = theirs.effective_sample_size(draws)
    return found


@contextlib.contextmanager
def standing_in(*packages):
    """Empty modules for what a library imports and nothing asked here needs, while it loads."""
    import sys
    from importlib.machinery import ModuleSpec
    from types import ModuleType, SimpleNamespace

    import uqhelpers._torch

    class Empty(ModuleType):
        __path__ = ()

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {})

    def find_spec(name, path=None, target=None):
        if name.split(".")[0] in packages:
            return ModuleSpec(name, loader, is_package=True)
        return None

    loader = SimpleNamespace(create_module=lambda spec: Empty(spec.name), exec_module=lambda module: None)
    finder = SimpleNamespace(find_spec=find_spec)
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def first_ranks(cases):
    """torch-uncertainty's threshold for the scores i / (n + 1), as the rank it lies at."""
    from torch_uncertainty.post_processing import ConformalClsTHR

    from uqhelpers._torch import torch

    found = []
    for n in cases["ranks"]["sizes"].tolist():
        right = 1 - torch.arange(1, n + 1).double() / (n + 1)
        model = ConformalClsTHR(alpha=0.1, model=torch.nn.Identity(), enable_ts=False)
        model.fit([(torch.stack([right, 1 - right], dim=1).log(), torch.zeros(n).long())])
        found.append(model.q_hat * (n + 1))
    return {"ranks": found}


LIBRARIES = {
    "scikit-learn": scikit_learn,
    "scipy": scipy,
    "torchmetrics": torchmetrics,
    "popular recipe": popular_recipe,
    "netcal": netcal,
    "baal": baal,
    "scikit-activeml": scikit_activeml,
    "foolbox": foolbox,
    "pytorch-ood": pytorch_ood,
    "torch-uncertainty": torch_uncertainty,
    "torchattacks": torchattacks,
    "uncertainty-toolbox": uncertainty_toolbox,
    "mapie": mapie,
    "crepes": crepes,
    "puncc": puncc,
    "probly": probly,
    "blackjax": blackjax,
    "numpyro": numpyro,
}
PACKAGES = {"popular recipe": "torch"}  # the distribution whose version counts, where it has another name


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def network(case):
    """The network of ten hidden units with dropout before the last layer."""
    from uqhelpers._torch import torch

    nn = torch.nn
    model = nn.Sequential(
        nn.Linear(3, 10, bias=False), nn.ReLU(), nn.Dropout(0.5), nn.Linear(10, 4, bias=False)
    ).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.from_numpy(case["hidden"]))
        model[3].weight.copy_(torch.from_numpy(case["output"]))
    return model.eval()


def classifier(case):
    """A network on images, with ten hidden units whose gradient is nowhere exactly zero."""
    from uqhelpers._torch import torch

    nn = torch.nn
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(12, 10, bias=False), nn.Tanh(), nn.Linear(10, 4, bias=False)
    ).double()
    with torch.no_grad():
        model[1].weight.copy_(torch.from_numpy(case["hidden"]))
        model[3].weight.copy_(torch.from_numpy(case["output"]))
    return model.eval()


def odin_name(temperature, epsilon, scaled):
    """By what name an answer of ODIN is stored."""
    return f"ODIN, T = {temperature:g}, step {epsilon:g}" + (", over the std" if scaled else "")


def without_dropout(model):
    """The same layers but for the dropout."""
    from uqhelpers._torch import torch

    kept = [layer for layer in model if not isinstance(layer, torch.nn.Dropout)]
    return torch.nn.Sequential(*kept).eval()


@contextlib.contextmanager
def seeded():
    """torch's global generator at seed 0, and afterwards as it was."""
    from uqhelpers._torch import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def sampled_network(cases, forward):
    """Averaged prediction over many passes of ``forward``."""
    from uqhelpers._torch import torch

    inputs = tensors(cases["dropout"], "inputs")[0]
    with seeded(), torch.no_grad():
        probs = torch.stack([forward(inputs).softmax(dim=-1) for _ in range(PASSES)])
    return {"dropout mean": probs.mean(dim=0)}


def moved_buffers(predict):
    """Whether sampling from a model that came in training mode moves the averages of its BatchNorm."""
    from uqhelpers._torch import torch

    nn = torch.nn
    found = {}
    for mode in ("training", "evaluation"):
        with seeded(), torch.no_grad():
            model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
            model.train(mode == "training")
            before = model[1].running_mean.clone()
            predict(model, torch.ones(8, 3) + torch.arange(8.0)[:, None])
            found[f"BatchNorm moved, in {mode}"] = bool((model[1].running_mean != before).any())
    return found


def tensors(case, *names):
    """Arrays of a case as tensors."""
    from uqhelpers._torch import torch

    return [torch.from_numpy(np.array(case[name])) for name in names]


def plain(value):
    """As numbers, words and lists: nine digits, NaN and infinity as words, so that it is JSON everywhere."""
    if isinstance(value, str | bool):
        return value
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "detach"):
        value = value.detach().numpy()
    value = np.asarray(value, dtype=np.float64)
    if value.ndim:
        return [plain(entry) for entry in value] if value.size > 1 else plain(value.reshape(()))
    return float(f"{value:.9g}") if np.isfinite(value) else str(value)


def evaluate(library, cases):
    """One library's answers, as plain numbers; its warnings and messages are its own affair."""
    import uqhelpers._torch

    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {name: plain(value) for name, value in LIBRARIES[library](cases).items()}
    finally:
        logging.disable(level)


def version(library):
    return importlib.metadata.version(PACKAGES.get(library, library)).partition("+")[0]


def record():
    """Evaluate every library that is here.

    Returns
    -------
    dict
        With ``inputs`` (their fingerprint), ``versions``, ``skipped`` (reasons)
        and ``values``, by library and name.
    """
    cases = make_cases()
    stored = {"inputs": fingerprint(cases), "versions": {}, "skipped": {}, "values": {}}
    for library in LIBRARIES:
        try:
            values = evaluate(library, cases)
        except (ImportError, OSError, RuntimeError) as error:
            # Not the whole message: those of loaders name the machine's folders.
            missing = getattr(error, "name", None) or "could not be loaded"
            stored["skipped"][library] = f"{type(error).__name__}: {missing}"
        else:
            stored["versions"][library] = version(library)
            stored["values"][library] = values
    return stored


def as_text(stored, depth=0):
    """JSON with one answer on each line, so that a change can be read."""
    if not isinstance(stored, dict):
        return json.dumps(stored)
    inner = "  " * (depth + 1)
    lines = [f"{inner}{json.dumps(key)}: {as_text(stored[key], depth + 1)}" for key in sorted(stored)]
    return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}" if lines else "{}"


def main():
    stored = record()
    STORED.write_text(as_text(stored) + "\n", encoding="utf-8")
    for library, number in stored["versions"].items():
        print(f"{library} {number}: {len(stored['values'][library])} answers")
    for library, reason in stored["skipped"].items():
        print(f"{library} skipped: {reason}")


if __name__ == "__main__":
    main()
