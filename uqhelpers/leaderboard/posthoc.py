"""Methods that leave the one network as it is: other readings of what it puts out, or of its features."""

import numpy as np

from uqhelpers import confidnet, conformal, ddu, laplace, mc_dropout, metrics, odin, training
from uqhelpers.leaderboard import networks
from uqhelpers.leaderboard.answers import Answer
from uqhelpers.leaderboard.choosing import chosen, finds_errors, finds_strange, log_loss, stand_in

DRAWS = 30


def _readings(score):
    """A method that reads one score off the one network's logits, for errors and strange inputs alike."""

    def fit(train, validation, seed):
        net = networks.network(train, seed)

        def predict(images):
            logits = networks.logits(net, images)
            value = score(logits)
            return Answer(metrics.from_logits(logits), doubt=value, strangeness=value)

        return predict

    return fit


max_probability = _readings(odin.softmax_score)
entropy = _readings(lambda logits: metrics.predictive_entropy(metrics.from_logits(logits)))
max_logit = _readings(odin.max_logit_score)
energy = _readings(odin.energy_score)


def long_network(train, validation, seed):
    """One network with the ensemble's budget: five times as many epochs."""
    net = networks.network(train, seed, epochs=networks.MEMBERS * networks.BUDGET["epochs"])
    return lambda images: networks.probabilities(net, images)


def temperature(train, validation, seed):
    """The one network at the temperature that suits the validation set."""
    net = networks.network(train, seed)
    heat = metrics.fit_temperature(networks.logits(net, validation.images), validation.labels)
    return lambda images: metrics.apply_temperature(networks.logits(net, images), heat)


def _posterior(train, validation, seed):
    net = networks.network(train, seed)
    posterior = laplace.LastLayerLaplace(net).fit(train.images, train.labels)
    settings = np.logspace(-1, 3, 9)

    def score(precision):
        posterior.prior_precision = precision
        return log_loss(posterior.predict(validation.images), validation)

    posterior.prior_precision = chosen(settings, score)
    return posterior


def laplace_probit(train, validation, seed):
    """Laplace on the last layer, averaged by the probit formula."""
    posterior = _posterior(train, validation, seed)
    predict = _counted(lambda images: posterior.predict(images), posterior)
    return predict


def laplace_sampled(train, validation, seed):
    """The same posterior, sampled: the draws disagree, and can be decomposed."""
    posterior = _posterior(train, validation, seed)

    def predict(images):
        parts = posterior.decompose(images, samples=DRAWS, seed=seed)
        return Answer(parts.mean, aleatoric=parts.aleatoric, epistemic=parts.epistemic, members=DRAWS)

    return _counted(predict, posterior)


def _counted(predict, posterior):
    last = posterior.model[-1]
    size = last.weight.numel() + last.bias.numel()
    predict.kept = networks.weights(posterior.model) + size * (size + 1) // 2
    return predict


def monte_carlo_dropout(train, validation, seed):
    """The one network with its dropout left on, thirty times."""
    net = networks.network(train, seed)

    def predict(images):
        parts = mc_dropout.predict(net, images, passes=DRAWS, seed=seed, batch_size=5_000)
        return Answer(parts.mean, aleatoric=parts.aleatoric, epistemic=parts.epistemic, members=DRAWS)

    return predict


def confidence_network(train, validation, seed):
    """ConfidNet beside the one network; its dropout on or off, as the validation set has it."""
    net = networks.network(train, seed)

    def fitted(dropout):
        return confidnet.ConfidNet(net, hidden=(128, 128)).fit(
            train.images,
            train.labels,
            epochs=networks.BUDGET["epochs"],
            dropout=dropout,
            seed=seed,
            progress=False,
        )

    tried = {dropout: fitted(dropout) for dropout in (False, True)}
    best = chosen(tried, lambda dropout: finds_errors(tried[dropout].score, net, validation))
    learned = tried[best]

    def predict(images):
        doubt = learned.score(images)
        return Answer(networks.probabilities(net, images), doubt=doubt, strangeness=doubt)

    predict.kept = networks.weights(net) + networks.weights(learned.network)
    return predict


def trust_score(train, validation, seed):
    """Trust by neighbours among the features; the share of outliers left out as the validation set has it."""
    net, seen = networks.network(train, seed), networks.features(train, seed)
    tried = {alpha: confidnet.TrustScore(alpha=alpha).fit(seen, train.labels) for alpha in (0.0, 0.1, 0.3)}

    def score_with(trust):
        def score(images):
            features, logits = training.features_and_outputs(net, images, 5_000)
            return trust.score(features, logits.argmax(axis=1))

        return score

    best = score_with(tried[chosen(tried, lambda a: finds_errors(score_with(tried[a]), net, validation))])

    def predict(images):
        doubt = best(images)
        return Answer(networks.probabilities(net, images), doubt=doubt, strangeness=doubt)

    predict.kept = networks.weights(net) + seen.size
    return predict


def odin_method(train, validation, seed):
    """ODIN; temperature and step by the stand-in for the strange."""
    net = networks.network(train, seed)
    tuned = odin.tune(
        net, validation.images, stand_in(validation), temperatures=(1.0, 10.0, 1000.0), batch_size=5_000
    )

    def predict(images):
        score = odin.odin_score(net, images, tuned.temperature, tuned.epsilon, batch_size=5_000)
        return Answer(networks.probabilities(net, images), doubt=score, strangeness=score)

    return predict


def _of_features(make, settings):
    """A method that scores the features of the one network; its setting by the stand-in."""

    def fit(train, validation, seed):
        net, seen = networks.network(train, seed), networks.features(train, seed)
        tried = {setting: make(setting, seen, train.labels) for setting in settings}

        def score_with(detector):
            return lambda images: detector.score(training.features(net, images, 5_000))

        best = chosen(tried, lambda setting: finds_strange(score_with(tried[setting]), validation))
        score, kept = score_with(tried[best]), tried[best]

        def predict(images):
            value = score(images)
            return Answer(networks.probabilities(net, images), doubt=value, strangeness=value)

        predict.kept = networks.weights(net) + (
            seen.size if isinstance(kept, odin.KNearestNeighbours) else seen.shape[1] * (seen.shape[1] + 10)
        )
        return predict

    return fit


mahalanobis = _of_features(
    lambda ridge, seen, labels: odin.Mahalanobis(ridge).fit(seen, labels), (1e-6, 1e-4, 1e-2)
)
neighbours = _of_features(lambda k, seen, labels: odin.KNearestNeighbours(k).fit(seen), (1, 5, 20, 50))


def density(train, validation, seed):
    """DDU's second half on the one network: entropy for the ambiguous, a density for the strange."""
    net, seen = networks.network(train, seed), networks.features(train, seed)
    tried = {
        jitter: ddu.GaussianFeatureDensity(jitter).fit(seen, train.labels) for jitter in (1e-6, 1e-4, 1e-2)
    }

    def score_with(gaussians):
        return lambda images: gaussians.score(training.features(net, images, 5_000))

    best = tried[chosen(tried, lambda jitter: finds_strange(score_with(tried[jitter]), validation))]

    def predict(images):
        parts = ddu.predict(net, best, images, batch_size=5_000)
        return Answer(parts.probs, aleatoric=parts.aleatoric, epistemic=ddu.ddu_score(parts.log_density))

    predict.kept = networks.weights(net) + 10 * seen.shape[1] * (seen.shape[1] + 1)
    return predict


def conformal_values(train, validation, seed):
    """Conformal p-values of the one network: credibility, and confidence, instead of probabilities."""
    net = networks.network(train, seed)
    known = networks.probabilities(net, validation.images)
    scores = conformal.lac_scores(known)[np.arange(len(known)), validation.labels]

    def predict(images):
        probs = networks.probabilities(net, images)
        values = conformal.p_values(scores, conformal.lac_scores(probs).ravel()).reshape(probs.shape)
        ordered = np.sort(values, axis=1)
        return Answer(probs, doubt=ordered[:, -2], strangeness=-ordered[:, -1])

    predict.kept = networks.weights(net) + len(scores)
    return predict
