"""Evidential networks: against torch.distributions, scipy and sampling; what no data can tell."""

import numpy as np
import pytest
from scipy import stats

from uqhelpers import evidential, metrics, models, training
from uqhelpers._torch import torch
from uqhelpers.evidential import (
    DirichletHead,
    EvidentialLoss,
    EvidentialRegressionLoss,
    NormalInverseGammaHead,
    PriorNetworkLoss,
    decompose,
    dirichlet_kl,
    evidential_loss,
    nig_nll,
    sample,
    vacuity,
)

DIRICHLET = torch.distributions.Dirichlet


def concentrations(n=12, classes=4, seed=0, low=0.3, high=20.0):
    return np.random.default_rng(seed).uniform(low, high, size=(n, classes))


def tensor(values):
    return torch.tensor(np.asarray(values), dtype=torch.float64)


def blobs(n=90, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    return (rng.normal(size=(n, 2)) * 0.4 + np.array([[0, 2], [2, -1], [-2, -1]])[labels]), labels


def network(outputs, head, inputs=2, seed=0):
    with training.seeded(seed):
        return torch.nn.Sequential(models.MLP(inputs, outputs, hidden=(32,)), head)


# --- the Dirichlet ----------------------------------------------------------------------------------------


def test_the_divergence_from_the_uniform_is_that_of_torch():
    alpha = concentrations()
    expected = torch.distributions.kl_divergence(DIRICHLET(tensor(alpha)), DIRICHLET(tensor(np.ones(4))))
    assert dirichlet_kl(alpha) == pytest.approx(expected.numpy(), rel=1e-10)


@pytest.mark.parametrize("shape", [(12, 4), (4,)])
def test_the_divergence_between_two_is_that_of_torch(shape):
    alpha, beta = concentrations(), np.random.default_rng(1).uniform(0.2, 9, size=shape)
    expected = torch.distributions.kl_divergence(DIRICHLET(tensor(alpha)), DIRICHLET(tensor(beta)))
    assert dirichlet_kl(alpha, beta) == pytest.approx(expected.numpy(), rel=1e-10)


def test_the_divergence_of_a_dirichlet_from_itself_is_nothing():
    alpha = concentrations(high=1e4)
    assert dirichlet_kl(alpha, alpha) == pytest.approx(np.zeros(12), abs=1e-9)
    assert dirichlet_kl(np.ones((2, 5))).tolist() == [0.0, 0.0]


def test_without_evidence_vacuity_is_one_and_every_observation_lowers_it():
    counts = np.array([[0, 0, 0], [1, 0, 0], [3, 2, 1], [600, 200, 197]])
    assert vacuity(1 + counts) == pytest.approx([1, 3 / 4, 3 / 9, 3 / 1000])


def test_the_closed_decomposition_is_that_of_many_draws():
    alpha = np.concatenate([concentrations(6), [[1, 1, 1, 1], [0.05, 0.05, 0.05, 0.05], [900, 1, 1, 1]]])
    drawn = sample(alpha, 20_000, seed=0)
    parts, measured = decompose(alpha), metrics.decompose(drawn)
    entropies = -(drawn * np.log(np.maximum(drawn, 1e-300))).sum(axis=2)
    # Nine inputs, five standard errors: a false alarm in 200,000 runs.
    error = 5 * entropies.std(axis=0) / np.sqrt(len(drawn)) + 1e-9
    assert (np.abs(parts.aleatoric - entropies.mean(axis=0)) < error).all()
    assert parts.total == pytest.approx(measured.total, abs=0.02)
    assert parts.epistemic == pytest.approx(measured.epistemic, abs=0.02)


def test_the_parts_add_up_and_stay_in_their_ranges():
    alpha = concentrations(200, low=1e-3, high=5e6)
    parts = decompose(alpha)
    assert parts.total == pytest.approx(parts.aleatoric + parts.epistemic, abs=1e-12)
    for part in (parts.total, parts.aleatoric, parts.epistemic):
        assert part.min() >= 0
        assert part.max() <= np.log(4) + 1e-12
    assert parts.mean.sum(axis=1) == pytest.approx(np.ones(200))
    assert (parts.alpha == alpha).all()
    assert parts.vacuity == pytest.approx(vacuity(alpha))


def test_with_much_evidence_the_mutual_information_is_half_the_classes_less_one_over_the_evidence():
    # The expansion of the digamma: what remains to be learned about C - 1 free probabilities.
    alpha = 1e5 * np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    assert decompose(alpha).epistemic == pytest.approx(np.full(2, (3 - 1) / 2 / 1e5), rel=1e-3)


def test_draws_are_distributions_whose_moments_are_the_dirichlets_even_where_concentrations_are_tiny():
    alpha = np.array([[2.0, 5.0, 3.0], [1e-4, 1e-4, 1e-4]])
    drawn = sample(alpha, 30_000, seed=1)
    assert drawn.shape == (30_000, 2, 3)
    assert drawn.sum(axis=2) == pytest.approx(np.ones((30_000, 2)))
    mean = alpha / alpha.sum(axis=1, keepdims=True)
    strength = alpha.sum(axis=1, keepdims=True)
    std = np.sqrt(mean * (1 - mean) / (strength + 1))
    assert (np.abs(drawn.mean(axis=0) - mean) < 5 * std / np.sqrt(30_000)).all()
    assert drawn.std(axis=0) == pytest.approx(std, rel=0.03)


def test_the_tiniest_concentrations_draw_one_class_by_their_shares():
    drawn = sample(np.array([[1e-320, 1e-320], [2e-308, 6e-308]]), 4000, seed=0)
    assert ((drawn == 0) | (drawn == 1)).all()
    assert (drawn.sum(axis=2) == 1).all()
    assert drawn[:, :, 0].mean(axis=0) == pytest.approx([0.5, 0.25], abs=0.05)


def test_the_divergence_of_tiny_concentrations_grows_as_they_shrink():
    for tiny in (1e-12, 1e-100, 1e-300):
        assert dirichlet_kl(np.full((1, 3), tiny)) == pytest.approx(2 / tiny, rel=1e-9)
    assert dirichlet_kl(np.full((1, 3), 1e-320)) == np.inf
    assert dirichlet_kl(np.full((1, 3), 1e-320), np.full(3, 1e-320)) == 0


@pytest.mark.parametrize(
    ("alpha", "beta", "expected"),
    [  # by mpmath with 400 digits; the first is half of 1e6 * (trigamma(1e15) - trigamma(2e15))
        ([1e15, 1e15], [1e15, 1e15 + 1e3], 2.5e-10),
        ([1e15, 1e-5], [1e15, 2e-5], 0.3068528195222998),
        ([1e200, 3.0], [1e200, 4.0], 0.17582795356964256),
        ([5e21, 1.0], [1.0, 1.0], 48.96372486530906),
        ([99.9, 100.1], [100.1, 99.9], 0.00040200680188004517),
        ([6.54731581e15, 1.11346894e-08, 10404.9005], [6.54733027e15, 1.11346877e-08, 10404.8307], 4.0e-7),
    ],
)
def test_the_divergence_of_huge_concentrations_keeps_its_digits(alpha, beta, expected):
    found = dirichlet_kl(np.array([alpha]), np.array(beta))[0]
    assert found == pytest.approx(expected, rel=1e-4 if expected > 1e-6 else 0.05)
    assert dirichlet_kl(np.array([alpha]), np.array(alpha))[0] == 0


def test_the_vacuity_of_the_tiniest_concentrations_is_infinite_and_nobody_warns():
    alpha = np.full((1, 3), 5e-324)
    with np.errstate(all="raise"):
        assert vacuity(alpha).tolist() == [np.inf]
        assert decompose(alpha).vacuity.tolist() == [np.inf]
        assert vacuity(np.full((1, 3), 1e-300)) == pytest.approx(1e300)


def test_one_seed_repeats_and_two_differ():
    alpha = concentrations(3)
    assert (sample(alpha, 5, seed=3) == sample(alpha, 5, seed=3)).all()
    assert (sample(alpha, 5, seed=3) != sample(alpha, 5, seed=4)).all()


# --- the losses of classification -------------------------------------------------------------------------


def labels_for(alpha, seed=0):
    return np.random.default_rng(seed).integers(alpha.shape[1], size=len(alpha))


def test_the_log_loss_is_the_cross_entropy_of_the_mean():
    alpha = concentrations()
    labels = labels_for(alpha)
    found = evidential_loss(tensor(alpha), torch.tensor(labels), "log")
    mean = alpha / alpha.sum(axis=1, keepdims=True)
    assert found.numpy() == pytest.approx(-np.log(mean[np.arange(12), labels]))


@pytest.mark.parametrize("kind", ["mse", "digamma"])
def test_the_other_losses_are_expectations_over_draws(kind):
    alpha = concentrations(6, low=1.0)
    labels = labels_for(alpha)
    drawn = sample(alpha, 40_000, seed=2)
    if kind == "mse":
        losses = ((drawn - np.eye(4)[labels]) ** 2).sum(axis=2)
    else:
        losses = -np.log(drawn[:, np.arange(6), labels])
    found = evidential_loss(tensor(alpha), torch.tensor(labels), kind).numpy()
    assert (np.abs(found - losses.mean(axis=0)) < 5 * losses.std(axis=0) / 200).all()


@pytest.mark.parametrize("kind", evidential.KINDS)
def test_the_penalty_is_the_divergence_once_the_labels_own_evidence_is_gone(kind):
    alpha = concentrations(low=1.0)
    labels = labels_for(alpha)
    without = alpha.copy()
    without[np.arange(12), labels] = 1.0
    both = [evidential_loss(tensor(alpha), torch.tensor(labels), kind, weight) for weight in (0.0, 0.7)]
    assert (both[1] - both[0]).numpy() == pytest.approx(0.7 * dirichlet_kl(without))


@pytest.mark.parametrize("kind", evidential.KINDS)
def test_evidence_for_the_right_class_alone_is_never_penalised_and_always_rewarded(kind):
    strength = np.geomspace(1, 1e6, 30)
    alpha = np.stack([strength, np.ones(30), np.ones(30)], axis=1)
    found = evidential_loss(tensor(alpha), torch.zeros(30), kind, 1.0).numpy()
    assert (np.diff(found) < 0).all()  # so that it grows as long as one trains


@pytest.mark.parametrize("kind", evidential.KINDS)
def test_the_gradient_is_that_of_finite_differences(kind):
    alpha = tensor(concentrations(3, low=1.0)).requires_grad_()
    labels = torch.tensor([0, 3, 1])
    assert torch.autograd.gradcheck(lambda a: evidential_loss(a, labels, kind, 0.3), (alpha,))


def test_single_precision_is_good_enough_for_a_million_pieces_of_evidence():
    alpha = np.array([[1.0, 2e6, 3e6], [5.0, 1e6, 2.0]], dtype=np.float32)
    found = evidential_loss(torch.tensor(alpha), torch.tensor([0, 0]), "digamma", 1.0).numpy()
    wide = evidential_loss(tensor(alpha), torch.tensor([0, 0]), "digamma", 1.0).numpy()
    assert found == pytest.approx(wide, rel=1e-6)


def test_a_dead_relu_has_no_gradient_and_softplus_and_exp_have_one():
    for activation, dead in (("relu", True), ("softplus", False), ("exp", False)):
        outputs = torch.full((1, 3), -2.0, requires_grad=True)
        evidential_loss(DirichletHead(activation)(outputs), torch.tensor([1]), "mse", 1.0).sum().backward()
        assert bool((outputs.grad == 0).all()) is dead


def test_the_penalty_is_annealed_step_by_step_and_prediction_is_no_step():
    loss, alpha = EvidentialLoss("mse", kl_weight=0.5, annealing_steps=4), tensor(concentrations(low=1.0))
    weights = []
    for _ in range(6):
        weights.append(loss.weight)
        loss(alpha, torch.zeros(12))  # no gradient, as in a validation loss
        loss(alpha.clone().requires_grad_(), torch.zeros(12))
    assert weights == [0, 0.125, 0.25, 0.375, 0.5, 0.5]
    assert loss.steps == 6
    assert EvidentialLoss(kl_weight=0.5).weight == 0.5


# --- trained ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", evidential.KINDS)
def test_a_network_learns_classes_and_finds_more_evidence_where_it_has_seen_some(kind):
    inputs, labels = blobs()
    net = network(3, DirichletHead())
    loss = EvidentialLoss(kind, annealing_steps=60)
    training.fit(net, inputs, labels, epochs=120, batch_size=30, learning_rate=1e-2, loss=loss)
    found = evidential.predict(net, inputs)
    assert metrics.accuracy(found.mean, labels) > 0.9
    between = evidential.predict(net, np.zeros((1, 2)))  # in the middle of the three
    assert between.vacuity[0] > found.vacuity.mean()
    assert loss.steps == 360


def test_prediction_is_the_decomposition_of_what_the_network_puts_out():
    net, inputs = network(3, DirichletHead("exp")), blobs()[0]
    found = evidential.predict(net, inputs, batch_size=7)
    with torch.no_grad():
        alpha = net(torch.tensor(inputs, dtype=torch.float32)).double().numpy()
    assert found.alpha == pytest.approx(alpha, rel=1e-5)
    assert found.mean == pytest.approx(alpha / alpha.sum(axis=1, keepdims=True), rel=1e-5)
    assert found.epistemic == pytest.approx(decompose(alpha).epistemic, abs=1e-6)
    assert found.confidence == pytest.approx(found.mean.max(axis=1))


def test_a_prior_network_knows_what_it_was_told_lies_outside():
    inputs, labels = blobs()
    angle = np.linspace(0, 2 * np.pi, 60)
    ring = 5 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    net = network(3, DirichletHead("exp"))
    training.fit(
        net,
        np.concatenate([inputs, ring]),
        np.concatenate([labels, np.full(60, -1)]),
        epochs=200,
        learning_rate=1e-2,
        loss=PriorNetworkLoss(precision=50),
    )
    assert evidential.predict(net, inputs).vacuity.mean() < 0.3
    assert evidential.predict(net, ring).vacuity.mean() > 0.5


def test_the_loss_of_a_prior_network_is_the_divergence_from_its_target():
    alpha, labels = concentrations(3), np.array([2, -1, 0])
    target = np.ones((3, 4))
    target[0, 2] = target[2, 0] = 31
    found = PriorNetworkLoss(precision=30)(tensor(alpha), torch.tensor(labels))
    assert found.item() == pytest.approx(dirichlet_kl(alpha, target).mean())


# --- regression -------------------------------------------------------------------------------------------


def nig(n=40, seed=0):
    rng = np.random.default_rng(seed)
    y, gamma = rng.normal(size=(2, n)) * 3
    return y, gamma, rng.uniform(0.05, 8, n), rng.uniform(1.05, 30, n), rng.uniform(0.05, 9, n)


def test_the_likelihood_is_a_student_t():
    y, gamma, nu, alpha, beta = nig()
    expected = -stats.t.logpdf(y, 2 * alpha, gamma, np.sqrt(beta * (1 + nu) / (nu * alpha)))
    assert nig_nll(y, gamma, nu, alpha, beta) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("y", "nu", "beta", "expected"),
    [  # by mpmath, with gamma = 0 and alpha = 2
        (0.0, 1.0, 1e308, 355.5789335740948),
        (0.0, 1e100, 1e300, 346.0220196116386),
        (1e-200, 1.0, 1e-300, -344.4069346960951),
    ],
)
def test_the_likelihood_of_huge_and_of_tiny_scales_is_finite(y, nu, beta, expected):
    assert float(nig_nll(y, 0.0, nu, 2.0, beta)) == pytest.approx(expected, rel=1e-12)
    parameters = tensor([[0.0, nu, 2.0, beta]]).requires_grad_()
    EvidentialRegressionLoss(0.0)(parameters, tensor([y])).backward()
    assert torch.isfinite(parameters.grad).all()


def test_with_ever_more_degrees_of_freedom_the_student_becomes_a_normal():
    for alpha in (50.0, 99.0, 101.0, 1e4):
        expected = -stats.t.logpdf(1.0, 2 * alpha, 0.0, np.sqrt(2.0))
        assert nig_nll(1.0, 0.0, 1.0, alpha, alpha) == pytest.approx(expected, abs=1e-10)
    for alpha in (1e8, 1e12, 1e15):
        normal = -stats.norm.logpdf(1.0, 0.0, np.sqrt(2.0))
        assert nig_nll(1.0, 0.0, 1.0, alpha, alpha) == pytest.approx(normal, abs=1e-8)


def test_the_gradient_of_the_likelihood_is_that_of_finite_differences():
    y, *parameters = (tensor(value[:5]) for value in nig())
    parameters[2][0], parameters[2][1] = 150.0, 1e3  # beside the small ones, in one call
    rows = torch.stack(parameters, dim=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda p: EvidentialRegressionLoss(0.1)(p, y), (rows,))


def test_the_likelihood_is_what_integrating_mean_and_variance_out_leaves():
    y, gamma, nu, alpha, beta = (float(value[3]) for value in nig())
    rng = np.random.default_rng(0)
    variance = stats.invgamma(alpha, scale=beta).rvs(200_000, random_state=rng)
    mean = gamma + np.sqrt(variance / nu) * rng.normal(size=len(variance))
    drawn = stats.norm(mean, np.sqrt(variance)).pdf(y)
    assert abs(drawn.mean() - np.exp(-nig_nll(y, gamma, nu, alpha, beta))) < 5 * drawn.std() / np.sqrt(
        len(drawn)
    )


def test_three_networks_with_one_likelihood_call_as_much_epistemic_as_one_likes():
    y, constant, alpha = np.linspace(-6, 6, 101), 4.0, 3.0
    values, epistemic = [], []
    for nu in (0.1, 1.0, 10.0):
        beta = constant * nu / (1 + nu)  # keeps beta * (1 + nu) / nu
        values.append(nig_nll(y, 0.5, nu, alpha, beta))
        epistemic.append(beta / (nu * (alpha - 1)))  # a variance
    assert np.ptp(values, axis=0).max() < 1e-9
    assert epistemic[0] == pytest.approx(10 * epistemic[2])
    assert epistemic[0] > epistemic[1] > epistemic[2]


def test_the_loss_is_the_likelihood_and_the_penalty_of_evidence_where_it_errs():
    y, gamma, nu, alpha, beta = nig()
    parameters = tensor(np.stack([gamma, nu, alpha, beta], axis=1))
    expected = nig_nll(y, gamma, nu, alpha, beta) + 0.3 * np.abs(y - gamma) * (2 * nu + alpha)
    for targets in (tensor(y), tensor(y)[:, None]):
        assert EvidentialRegressionLoss(0.3)(parameters, targets).item() == pytest.approx(expected.mean())


def test_exponential_evidence_stays_finite_far_away():
    net = network(3, DirichletHead("exp"))
    found = evidential.predict(net, 1e6 * blobs()[0])
    assert np.isfinite(found.alpha).all()
    assert found.vacuity.min() > 0


def test_the_head_is_legal_wherever_the_network_goes():
    outputs = torch.tensor([[0.0, -500.0, -500.0, -500.0], [1e6, 1e6, 1e6, 1e6], [0.0, 0.0, 0.0, 0.0]])
    gamma, nu, alpha, beta = NormalInverseGammaHead()(outputs).T
    assert (gamma == outputs[:, 0]).all()
    assert nu.min() > 0
    assert alpha.min() > 1
    assert beta.min() > 0


def test_a_regression_predicts_standard_deviations_whose_squares_add_up():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(200, 1))
    y = np.sin(2 * x) + rng.normal(0, 0.2, size=x.shape)
    net = network(4, NormalInverseGammaHead(), inputs=1)
    training.fit(
        net, x, y, epochs=150, batch_size=50, learning_rate=1e-2, loss=EvidentialRegressionLoss(0.01)
    )
    found = evidential.predict_regression(net, x)
    assert isinstance(found, metrics.RegressionPrediction)
    assert np.abs(found.mean - np.sin(2 * x[:, 0])).mean() < 0.2
    assert found.total**2 == pytest.approx(found.aleatoric**2 + found.epistemic**2)
    assert found.aleatoric**2 == pytest.approx(found.beta / (found.alpha - 1))
    student = stats.t(2 * found.alpha, 0, np.sqrt(found.beta * (1 + found.nu) / (found.nu * found.alpha)))
    assert found.total == pytest.approx(student.std())


def test_no_evidence_is_too_much_to_be_learned_from():
    outputs = tensor([[60.0, 0.0, 3.0], [500.0, 0.0, 0.0], [1e6, 0.0, 0.0]]).requires_grad_()
    evidential_loss(DirichletHead("exp")(outputs), torch.tensor([1, 2, 1]), "log").sum().backward()
    assert (outputs.grad[:, 0] > 0).all()  # of a wrong class
    assert torch.isfinite(outputs.grad).all()
    step = torch.linspace(49, 51, 2001, dtype=torch.float64, requires_grad=True)
    evidence = DirichletHead("exp")(step) - 1
    (slope,) = torch.autograd.grad(evidence.sum(), step)
    assert (evidence[:1000] == torch.exp(step[:1000])).all()
    assert (evidence.diff() > 0).all()
    assert slope[1001:] == pytest.approx(np.full(1000, np.exp(50)))


def test_a_dead_input_can_be_revived_by_the_weights_it_shares():
    net = torch.nn.Sequential(torch.nn.Linear(1, 2, bias=True), DirichletHead("relu")).double()
    with torch.no_grad():
        net[0].weight[:], net[0].bias[:] = tensor([[1.0], [0.0]]), tensor([-0.5, -1.0])
    x, labels = tensor([[0.0], [1.0]]), torch.tensor([0, 0])
    assert net(x)[0].tolist() == [1, 1]  # the first is dead
    step = torch.optim.SGD(net.parameters(), lr=0.5)
    for _ in range(50):
        step.zero_grad()
        evidential_loss(net(x), labels, "log").mean().backward()
        step.step()
    assert net(x)[0, 0] > 1.1


def test_a_softmax_is_no_dirichlet():
    inputs, labels = blobs()
    with training.seeded(0):
        net = torch.nn.Sequential(models.MLP(2, 4), torch.nn.Softmax(1))
    with pytest.raises(ValueError, match=r"model: expected concentrations, got rows that sum to 1"):
        evidential.predict(net, inputs)
    for loss in (EvidentialLoss(), PriorNetworkLoss()):
        with pytest.raises(ValueError, match=r"alpha: expected concentrations, got rows that sum to 1"):
            loss(net(torch.tensor(inputs[:9]).float()), torch.tensor(labels[:9]))


def test_who_means_concentrations_that_sum_to_one_is_told_what_takes_them():
    halves, labels = tensor([[0.5, 0.5], [0.3, 0.7]]), torch.tensor([0, 1])
    with pytest.raises(ValueError, match="are taken by evidential_loss and decompose"):
        EvidentialLoss()(halves, labels)
    mean = halves.numpy()[[0, 1], labels.numpy()]
    assert evidential_loss(halves, labels, "log").numpy() == pytest.approx(-np.log(mean))
    assert decompose(halves.numpy()).vacuity.tolist() == [2, 2]


@pytest.mark.parametrize("predict", [evidential.predict, evidential.predict_regression])
def test_a_model_without_weights_is_refused_by_name(predict):
    with pytest.raises(ValueError, match="model: expected a network with weights"):
        predict(torch.nn.Sequential(torch.nn.Flatten(), DirichletHead()), blobs()[0])


def test_a_penalty_that_is_off_has_nothing_to_anneal():
    with pytest.raises(ValueError, match="annealing_steps: expected 0 beside kl_weight=0"):
        EvidentialLoss(kl_weight=0.0, annealing_steps=10)


def test_prediction_takes_a_loader():
    net, inputs = network(3, DirichletHead()), blobs()[0]
    loader = torch.utils.data.DataLoader(torch.tensor(inputs), batch_size=7)
    assert evidential.predict(net, loader).alpha == pytest.approx(evidential.predict(net, inputs).alpha)


# --- wrong input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [vacuity, decompose, sample, dirichlet_kl])
@pytest.mark.parametrize(
    ("alpha", "message"),
    [
        (np.zeros((0, 3)), "at least one value"),
        (np.ones(3), "2 dimension"),
        (np.ones((4, 1)), "at least two classes"),
        (np.array([[1.0, np.nan]]), "finite"),
        (np.array([[-2.0, 3.0]]), "are these logits"),
        (np.array([[1e308, 1e308, 1.0]]), "sum is finite"),
        ([["a", "b"]], "numbers"),
    ],
)
def test_what_is_no_dirichlet_is_told_so(function, alpha, message):
    with pytest.raises(ValueError, match=f"alpha: .*{message}"):
        function(alpha)


def test_the_other_dirichlet_has_to_fit():
    with pytest.raises(ValueError, match="beta: expected the shape"):
        dirichlet_kl(np.ones((2, 3)), np.ones((2, 4)))
    with pytest.raises(ValueError, match="beta: expected concentrations above 0"):
        dirichlet_kl(np.ones((2, 3)), np.zeros(3))


@pytest.mark.parametrize("labels", [[0, 3], [-1, 0], [0.5, 1], [0], [[0], [1]]])
def test_labels_have_to_be_classes(labels):
    with pytest.raises(ValueError, match="labels: "):
        evidential_loss(torch.ones(2, 3), torch.tensor(labels))


@pytest.mark.parametrize(
    "alpha",
    [
        torch.ones(3),
        torch.zeros(2, 3),
        torch.full((2, 3), torch.nan),
        torch.tensor([[1.0, 2.0], [torch.inf, 1.0]]),
        np.ones((2, 3)),
    ],
)
@pytest.mark.parametrize("loss", [EvidentialLoss(), PriorNetworkLoss()])
def test_a_loss_wants_concentrations(loss, alpha):
    with pytest.raises(ValueError, match="alpha: "):
        loss(alpha, torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: EvidentialLoss("mean"), "kind"),
        (lambda: EvidentialLoss(kl_weight=-1), "kl_weight"),
        (lambda: EvidentialLoss(annealing_steps=1.5), "annealing_steps"),
        (lambda: EvidentialRegressionLoss(-0.1), "regulariser"),
        (lambda: PriorNetworkLoss(0), "precision"),
        (lambda: DirichletHead("tanh"), "activation"),
        (lambda: sample(np.ones((1, 2)), 0), "samples"),
        (lambda: NormalInverseGammaHead()(torch.ones(2, 3)), "outputs"),
        (lambda: EvidentialRegressionLoss()(torch.ones(2, 3), torch.ones(2)), "parameters"),
        (lambda: EvidentialRegressionLoss()(torch.zeros(2, 4), torch.ones(2)), "parameters"),
        (lambda: EvidentialRegressionLoss()(torch.ones(2, 4), torch.ones(3)), "targets"),
        (lambda: EvidentialRegressionLoss()(torch.ones(2, 4), torch.tensor([1, torch.nan])), "targets"),
        (lambda: EvidentialRegressionLoss()(torch.full((2, 4), torch.inf), torch.ones(2)), "parameters"),
        (
            lambda: EvidentialRegressionLoss()(torch.tensor([[torch.nan, 1, 2, 1]]), torch.ones(1)),
            "parameters",
        ),
        (lambda: nig_nll(np.ones(3), 0, 1, 2, np.ones(4)), "beta"),
        (lambda: nig_nll(np.ones(3), 0, 0, 2, 1), "nu"),
        (lambda: nig_nll(np.array([np.nan]), 0, 1, 2, 1), "y"),
    ],
)
def test_an_argument_out_of_range_is_named(make, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        make()


def test_a_network_without_a_head_is_told_so():
    inputs = blobs()[0]
    with training.seeded(0):
        plain = models.MLP(2, 4)
    with pytest.raises(ValueError, match=r"model: .* DirichletHead"):
        evidential.predict(plain, inputs)
    with pytest.raises(ValueError, match=r"model: .* NormalInverseGammaHead"):
        evidential.predict_regression(plain, inputs)
    with pytest.raises(ValueError, match="DirichletHead"):
        training.fit(plain, inputs, blobs()[1], epochs=1, loss=EvidentialLoss())


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16])
def test_a_softmax_in_half_precision_is_no_dirichlet_either(precision):
    with training.seeded(0):
        net = torch.nn.Sequential(models.MLP(2, 4), torch.nn.Softmax(1)).to(precision)
    with pytest.raises(ValueError, match="model: expected concentrations, got rows that sum to 1"):
        evidential.predict(net, blobs()[0])
    with pytest.raises(ValueError, match="alpha: expected concentrations, got rows that sum to 1"):
        EvidentialLoss()(net(torch.tensor(blobs()[0]).to(precision)), torch.tensor(blobs()[1]))


def test_what_is_decomposed_may_change_afterwards():
    alpha = np.ones((2, 3))
    found = evidential.decompose(alpha)
    alpha[:] = 9
    assert found.alpha.tolist() == np.ones((2, 3)).tolist()


@pytest.mark.parametrize("bad", [["a", "b"], None, [0 + 1j, 1], torch.tensor([0 + 1j, 1 + 0j])])
def test_labels_of_another_kind_are_refused_by_name(bad):
    with pytest.raises(ValueError, match=r"^labels: expected"):
        evidential_loss(tensor(np.full((2, 3), 2.0)), bad)


@pytest.mark.parametrize("size", [1e3, 1e8, 1e12, 1e21, 1e100])
def test_losses_of_huge_evidence_are_the_divergence_and_keep_their_slope(size):
    alpha = tensor([[size, 1.0, 2.0], [3.0, 1.0, 2.0]]).requires_grad_()
    labels = torch.tensor([1, 0])
    plain, penalised = (evidential_loss(alpha, labels, "log", weight) for weight in (0.0, 1.0))
    expected = evidential.dirichlet_kl(np.array([[size, 1.0, 2.0], [1.0, 1.0, 2.0]]))
    assert (penalised - plain).detach().numpy() == pytest.approx(expected, rel=1e-6, abs=1e-12)
    told = PriorNetworkLoss(100.0)(alpha, labels)
    target = np.array([[1.0, 101.0, 1.0], [101.0, 1.0, 1.0]])
    assert told.item() == pytest.approx(
        evidential.dirichlet_kl(alpha.detach().numpy(), target).mean(), rel=1e-6
    )
    (slope,) = torch.autograd.grad(penalised.sum(), alpha)
    assert torch.isfinite(slope).all()
    assert slope[0, 0] > 0  # of a wrong class
    assert slope[1, 0] < 0  # of the right one


def test_the_likelihood_of_a_target_far_out_is_that_of_its_logarithm():
    near, far = (nig_nll([y], [0.0], 1.0, 2.0, 1.0)[0] for y in (1e100, 1e200))
    assert far - near == pytest.approx(
        5 * 100 * np.log(10), rel=1e-9
    )  # the tail falls like y to the power -5
    parameters = tensor([[0.0, 1.0, 2.0, 1.0], [0.5, 1.0, 2.0, 1.0]]).requires_grad_()
    EvidentialRegressionLoss(0.0)(parameters, tensor([1e200, 1.0])).backward()
    assert torch.isfinite(parameters.grad).all()
    alone = parameters.detach()[1:].requires_grad_()
    EvidentialRegressionLoss(0.0)(alone, tensor([1.0])).backward()
    assert parameters.grad[1].tolist() == pytest.approx((alone.grad[0] / 2).tolist())
