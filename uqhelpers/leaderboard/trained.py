"""Methods that train otherwise, longer, or more than once."""

import numpy as np

from uqhelpers import calibration, deep_ensembles, evidential, metrics, training, variational_inference
from uqhelpers.leaderboard import networks
from uqhelpers.leaderboard.answers import Answer
from uqhelpers.leaderboard.choosing import chosen, log_loss

DRAWS = 30


def _best_network(trained, settings, validation, probs):
    """The network of the setting whose probabilities suit the validation set best."""
    tried = {setting: trained(setting) for setting in settings}
    return tried[
        chosen(tried, lambda setting: log_loss(probs(tried[setting], validation.images), validation))
    ]


def label_smoothing(train, validation, seed):
    """Trained on labels that are a little uncertain; how much is chosen."""
    net = _best_network(
        lambda amount: networks.network(train, seed, loss=calibration.label_smoothing(amount)),
        (0.02, 0.05, 0.1),
        validation,
        networks.probabilities,
    )
    return lambda images: networks.probabilities(net, images)


def evidential_network(train, validation, seed):
    """An evidential network; the weight of its penalty is chosen."""

    def trained(weight):
        epochs = networks.BUDGET["epochs"]
        loss = evidential.EvidentialLoss(
            "log", kl_weight=weight, annealing_steps=epochs // 4 * -(-len(train) // 64)
        )
        return networks.network(train, seed, loss=loss, head=evidential.DirichletHead("exp"))

    def parts_of(net, images):
        return evidential.predict(net, images, batch_size=5_000)

    net = _best_network(trained, (0.01, 0.1, 1.0), validation, lambda n, x: parts_of(n, x).mean)

    def predict(images):
        parts = parts_of(net, images)
        return Answer(parts.mean, aleatoric=parts.aleatoric, epistemic=parts.epistemic)

    return predict


def variational(train, validation, seed):
    """Mean-field variational inference; the weight of the divergence is chosen."""

    def trained(scale):
        with training.seeded(seed):
            net = variational_inference.make_variational(networks.fresh(train), prior_std=0.3)
        variational_inference.fit_variational(
            net,
            train.images,
            train.labels,
            epochs=networks.BUDGET["epochs"],
            batch_size=networks.BUDGET["batch_size"],
            learning_rate=networks.BUDGET["learning_rate"],
            kl_scale=scale,
            seed=seed,
            progress=False,
            device="cpu",
        )
        return net

    def parts_of(net, images, draws=DRAWS):
        return variational_inference.predict(net, images, samples=draws, seed=seed, batch_size=5_000)

    net = _best_network(trained, (0.03, 0.1, 0.3), validation, lambda n, x: parts_of(n, x).mean)

    def predict(images):
        parts = parts_of(net, images)
        return Answer(parts.mean, aleatoric=parts.aleatoric, epistemic=parts.epistemic, members=DRAWS)

    predict.kept = networks.weights(net)
    return predict


def ensemble(train, validation, seed):
    """Five networks, averaged."""
    nets = networks.members(train, seed)

    def predict(images):
        return np.stack([networks.probabilities(net, images) for net in nets])

    predict.kept = sum(map(networks.weights, nets))
    return predict


def ensemble_temperature(train, validation, seed):
    """The ensemble's average at the temperature that suits the validation set."""
    average = ensemble(train, validation, seed)
    kept = average.kept

    def pooled(images):
        return np.log(np.maximum(average(images).mean(axis=0), 1e-12))

    heat = metrics.fit_temperature(pooled(validation.images), validation.labels)

    def predict(images):
        parts = metrics.decompose(average(images))
        probs = metrics.apply_temperature(np.log(np.maximum(parts.mean, 1e-12)), heat)
        return Answer(probs, aleatoric=parts.aleatoric, epistemic=parts.epistemic, members=networks.MEMBERS)

    predict.kept = kept
    return predict


def _walk(net, train, validation, seed, rate):
    return deep_ensembles.Swag(net).fit(
        train.images,
        train.labels,
        epochs=20,
        learning_rate=rate,
        batch_size=networks.BUDGET["batch_size"],
        weight_decay=networks.BUDGET["weight_decay"],
        seed=seed,
        progress=False,
        device="cpu",
    )


def _walker(train, validation, seed):
    """The walk from the one network, at the rate that suits the validation set, and that rate."""
    net = networks.network(train, seed)
    tried = {rate: _walk(net, train, validation, seed, rate) for rate in (0.01, 0.03, 0.1)}

    def loss(rate):
        return log_loss(tried[rate].predict(validation.images, samples=10, seed=seed).mean, validation)

    best = chosen(tried, loss)
    return tried[best], best


def swag(train, validation, seed):
    """SWAG: a Gaussian around the walk of SGD from the one network."""
    walk, _ = _walker(train, validation, seed)

    def predict(images):
        parts = walk.predict(images, samples=DRAWS, seed=seed, batch_size=5_000)
        return Answer(parts.mean, aleatoric=parts.aleatoric, epistemic=parts.epistemic, members=DRAWS)

    predict.kept = (2 + walk.rank) * networks.weights(networks.network(train, seed))
    return predict


def multiswag(train, validation, seed):
    """A walk from each member of the ensemble, six networks drawn around each."""
    first, rate = _walker(train, validation, seed)
    nets = networks.members(train, seed)
    walks = [first] + [
        _walk(net, train, validation, seed + 1_000_003 * place, rate)
        for place, net in enumerate(nets[1:], start=1)
    ]
    each = DRAWS // len(walks)

    def predict(images):
        return np.concatenate(
            [walk.sample(images, samples=each, seed=seed, batch_size=5_000) for walk in walks]
        )

    predict.kept = len(walks) * (2 + first.rank) * networks.weights(nets[0])
    return predict


def distilled(train, validation, seed):
    """One network that has learned the ensemble's predictions, as a Dirichlet for each input."""
    nets = networks.members(train, seed)
    teachers = np.stack([networks.probabilities(net, train.images) for net in nets])
    with training.seeded(seed):
        student = networks.fresh(train)
    deep_ensembles.distill(
        student,
        train.images,
        teachers,
        epochs=networks.BUDGET["epochs"],
        batch_size=networks.BUDGET["batch_size"],
        learning_rate=networks.BUDGET["learning_rate"],
        seed=seed,
        progress=False,
        device="cpu",
    )

    def predict(images):
        parts = deep_ensembles.predict_distilled(student, images, batch_size=5_000)
        return Answer(parts.mean, aleatoric=parts.aleatoric, epistemic=parts.epistemic)

    return predict
