"""Data that come batch by batch: from loaders, lists of pairs and generators, where arrays could stand."""

import re
import tracemalloc
import warnings

import numpy as np
import pytest

from uqhelpers import batches, training
from uqhelpers._torch import torch
from uqhelpers.models import MLP

DATA = torch.utils.data


def blobs(n=60):
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=n)
    return (rng.normal(size=(n, 2)) + 3 * labels[:, None]).astype(np.float32), labels


def data_set(n=60):
    inputs, labels = blobs(n)
    return DATA.TensorDataset(torch.from_numpy(inputs), torch.from_numpy(labels))


def loader(n=60, **options):
    return DATA.DataLoader(data_set(n), **{"batch_size": 7, **options})


def network(seed=0, outputs=2):
    with training.seeded(seed):
        return MLP(2, outputs, (8,))


# --- what is a loader -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "array",
    [
        np.ones((3, 2)),
        torch.ones(3, 2),
        [[1.0, 2.0], [3.0, 4.0]],
        [np.ones(2), np.ones(2), np.ones(2)],
        [(1, 2), (3, 4)],
        range(3),
        [],
        "text",
        {"a": 1},
        None,
        3.0,
    ],
    ids=str,
)
def test_arrays_and_lists_of_numbers_are_no_loaders(array):
    assert not batches.is_loader(array)


def test_a_data_frame_is_no_loader():
    pandas = pytest.importorskip("pandas")
    assert not batches.is_loader(pandas.DataFrame({"x": [1.0]}))


def test_loaders_generators_and_lists_of_pairs_are():
    pair = (np.ones((3, 2)), np.zeros(3))
    for batched in (loader(), iter([pair]), (pair for _ in range(2)), [pair, pair]):
        assert batches.is_loader(batched)


def test_a_data_set_is_told_to_be_put_into_a_loader():
    with pytest.raises(ValueError, match=r"^inputs: .*data set TensorDataset: put it into a .*DataLoader"):
        training.predict(network(), data_set())


# --- all of it at once ------------------------------------------------------------------------------------


def test_arrays_are_handed_back_themselves():
    inputs, labels = blobs()
    assert batches.gather(inputs, labels)[0] is inputs
    assert batches.gather(inputs, labels)[1] is labels


def test_what_is_gathered_is_what_the_loader_yields():
    inputs, labels = batches.gather(loader())
    assert np.array_equal(inputs, blobs()[0])
    assert np.array_equal(labels, blobs()[1])


def test_inputs_and_targets_stay_together_when_they_are_shuffled():
    inputs, labels = batches.gather(loader(shuffle=True))
    known = {tuple(row): label for row, label in zip(blobs()[0].tolist(), blobs()[1], strict=True)}
    assert [known[tuple(row)] for row in inputs.tolist()] == labels.tolist()
    assert not np.array_equal(inputs, blobs()[0])


def test_numpy_batches_are_gathered_to_numpy_and_types_are_widened():
    first = (np.ones((2, 3), np.float32), np.zeros(2, np.int32))
    second = (np.ones((1, 3)), np.zeros(1, np.int64))
    inputs, targets = batches.gather([first, second])
    assert (inputs.shape, inputs.dtype, targets.dtype) == ((3, 3), np.float64, np.int64)


def test_gathering_holds_the_data_once():
    def made():
        for _ in range(32):
            yield np.ones((1000, 64)), np.zeros(1000)

    tracemalloc.start()
    inputs, _ = batches.gather(made())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # NumPy reports what it reserves: all parts and the whole, but never a third copy.
    assert peak < 2.2 * inputs.nbytes


def test_a_last_batch_that_would_be_left_out_is_refused():
    with pytest.raises(ValueError, match=r"^inputs: .*leaves nothing out, got one with drop_last=True"):
        batches.gather(loader(drop_last=True))


PAIR = (np.ones((3, 2)), np.zeros(3))


@pytest.mark.parametrize(
    ("batched", "message"),
    [
        (iter([]), "inputs: expected at least one batch, got none"),
        (iter([np.ones((3, 2))]), "inputs: expected batches of (inputs, targets), got ndarray"),
        (iter([(*PAIR, np.ones(3))]), "got a tuple of ndarray, ndarray, ndarray"),
        (iter([{"x": 1}]), "inputs: expected batches of (inputs, targets), got dict"),
        (iter([(np.ones((3, 2)), np.zeros(2))]), "targets: expected 3 in a batch, one an input, got 2"),
        (iter([(np.ones(2), np.float64(1))]), "inputs: expected batches of (inputs, targets)"),
        (
            iter([PAIR, (np.ones((3, 4)), np.zeros(3))]),
            "inputs: expected batches of one shape, got (3, 4) after (3, 2)",
        ),
        (iter([PAIR, (np.ma.ones((3, 2)), np.zeros(3))]), "inputs: expected an array without a mask"),
    ],
)
def test_batches_that_do_not_fit_are_named(batched, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        batches.gather(batched)


def test_targets_beside_a_loader_are_refused():
    for refuse in (batches.gather, batches.pairs, lambda *both: training.fit(network(), *both, epochs=1)):
        with pytest.raises(ValueError, match=r"^targets: expected none beside a loader"):
            refuse(loader(), blobs()[1])


# --- predicting in order ----------------------------------------------------------------------------------


@pytest.mark.parametrize("predict", [training.predict, training.predict_outputs, training.features])
def test_a_loader_predicts_what_its_array_does(predict):
    net, inputs = network(), blobs()[0]
    alone = DATA.DataLoader(DATA.TensorDataset(torch.from_numpy(inputs)), batch_size=11)
    bare = DATA.DataLoader(torch.from_numpy(inputs), batch_size=60)
    for batched in (loader(), alone, bare, iter(loader()), np.split(inputs, 6).__iter__(), list(loader())):
        np.testing.assert_allclose(predict(net, batched, 9), predict(net, inputs), atol=1e-6)


def test_large_batches_are_cut():
    sizes = []
    net = network()
    net.register_forward_hook(lambda _, given, output: sizes.append(len(output)))
    training.predict(net, loader(batch_size=30), batch_size=20)
    assert sizes == [20, 10, 20, 10]


class Stream(DATA.IterableDataset):
    def __iter__(self):
        return iter(torch.from_numpy(blobs()[0]))


class Backwards(DATA.Sampler):
    def __iter__(self):
        return iter(range(59, -1, -1))

    def __len__(self):
        return 60


def test_a_stream_read_by_one_is_in_order():
    streamed = training.predict(network(), DATA.DataLoader(Stream(), batch_size=7))
    np.testing.assert_allclose(streamed, training.predict(network(), blobs()[0]), atol=1e-6)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: loader(shuffle=True), "shuffle=True"),
        (lambda: loader(drop_last=True), "drop_last=True"),
        (lambda: loader(sampler=Backwards()), "the sampler Backwards"),
        (lambda: loader(sampler=DATA.SubsetRandomSampler([1, 2])), "the sampler SubsetRandomSampler"),
        (
            lambda: loader(batch_size=1, batch_sampler=[[0, 1], [5]]),
            "the batch sampler list",
        ),
        (
            lambda: loader(
                batch_size=1, batch_sampler=DATA.BatchSampler(DATA.RandomSampler(data_set()), 7, False)
            ),
            "shuffle=True",
        ),
        (
            lambda: DATA.DataLoader(Stream(), batch_size=7, num_workers=2),
            "an IterableDataset read by 2 workers",
        ),
        (lambda: loader(num_workers=2, in_order=False), "in_order=False"),
    ],
)
@pytest.mark.parametrize("predict", [training.predict, lambda net, data: training.as_inputs(data, net)])
def test_a_loader_out_of_order_is_refused_by_its_fault(predict, make, why):
    message = f"inputs: expected a DataLoader that gives every input once and in order, got one with {why}: "
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        predict(network(), make())


def test_neither_gathering_nor_predicting_moves_the_global_generator():
    before = torch.get_rng_state()
    training.predict(network(), loader())
    batches.gather(loader(shuffle=True))
    assert torch.equal(before, torch.get_rng_state())


def test_what_no_batch_is_is_refused_while_predicting():
    for batched in (iter([{"x": 1}]), iter([(1, 2, 3)])):
        with pytest.raises(
            ValueError, match=r"^inputs: expected batches of inputs, or of \(inputs, targets\)"
        ):
            training.predict(network(), batched)
    with pytest.raises(ValueError, match=r"^inputs: expected at least one batch"):
        training.predict(network(), iter([]))


def test_methods_take_a_loader_where_they_take_inputs():
    joined = training.as_inputs(loader(), network())
    assert torch.equal(joined, torch.from_numpy(blobs()[0]))


# --- training ---------------------------------------------------------------------------------------------

QUIET = {"progress": False, "device": "cpu", "learning_rate": 1e-2}


def test_one_batch_of_everything_trains_as_the_array_does():
    """Shuffling inside one batch changes nothing but rounding: loader and array must then agree."""
    inputs, labels = blobs()
    by_array, by_loader = network(), network()
    first = training.fit(by_array, inputs, labels, epochs=5, batch_size=60, **QUIET)
    second = training.fit(by_loader, loader(batch_size=60), epochs=5, **QUIET)
    np.testing.assert_allclose(first.loss, second.loss, rtol=1e-5)
    assert first.loss[-1] < 0.9 * first.loss[0]
    for one, other in zip(by_array.parameters(), by_loader.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_a_list_of_pairs_trains_as_its_loader_does():
    by_list, by_loader = network(), network()
    training.fit(by_list, list(loader()), epochs=3, **QUIET)
    training.fit(by_loader, loader(), epochs=3, **QUIET)
    for one, other in zip(by_list.parameters(), by_loader.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_seed_governs_the_order_of_a_loader_and_leaves_the_global_generator_alone():
    def trained(seed):
        net = network()
        training.fit(net, loader(shuffle=True), epochs=2, seed=seed, **QUIET)
        return training.predict_outputs(net, blobs()[0])

    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = trained(0)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(4)
    assert np.array_equal(first, trained(0))
    assert not np.array_equal(first, trained(1))


def test_the_loss_is_the_mean_over_inputs_and_not_over_batches():
    net = network()
    history = training.fit(net, loader(n=8, batch_size=7), epochs=1, **{**QUIET, "learning_rate": 1e-12})
    inputs, labels = blobs(8)
    probs = training.predict(network(), inputs)
    assert history.loss[0] == pytest.approx(-np.log(probs[np.arange(8), labels]).mean(), rel=1e-5)


def test_a_generator_lasts_for_one_epoch():
    training.fit(network(), iter(list(loader())), epochs=1, **QUIET)
    with pytest.raises(ValueError, match=r"^inputs: .*gone through 2 times.*got a list_iterator"):
        training.fit(network(), iter(list(loader())), epochs=2, **QUIET)


def test_a_batch_size_beside_a_loader_is_refused():
    with pytest.raises(ValueError, match=r"^batch_size: expected none beside a loader"):
        training.fit(network(), loader(), epochs=1, batch_size=32, **QUIET)


def test_a_bad_label_in_any_batch_is_named_and_the_network_stays_as_it_was():
    inputs, labels = blobs()
    labels[-1] = 2
    spoiled = DATA.DataLoader(DATA.TensorDataset(torch.from_numpy(inputs), torch.from_numpy(labels)), 7)
    net = network()
    before = [parameter.clone() for parameter in net.parameters()]
    with pytest.raises(ValueError, match=r"^targets: expected labels from 0 to 1, got 2"):
        training.fit(net, spoiled, epochs=1, **QUIET)
    assert all(torch.equal(one, other) for one, other in zip(before, net.parameters(), strict=True))


def test_targets_of_a_regression_come_from_a_loader_too():
    x = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]
    pairs = DATA.DataLoader(
        DATA.TensorDataset(torch.from_numpy(x), torch.from_numpy(3 * x[:, 0]).double()), 8
    )
    with training.seeded(0):
        net = MLP(1, 1)
    assert training.fit(net, pairs, epochs=60, loss="mse", **QUIET).loss[-1] < 1e-2


def test_arrays_that_may_not_be_written_to_are_taken_without_a_warning():
    inputs, labels = blobs()
    inputs.flags.writeable = labels.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        training.fit(network(), inputs, labels, epochs=1, **QUIET)
        training.predict(network(), inputs)


class Noisy(DATA.Dataset):
    """Inputs with noise of their own, drawn from the global generator when they are asked for."""

    def __len__(self):
        return 6

    def __getitem__(self, place):
        return torch.rand(1), place


def test_each_batch_of_a_pass_has_its_own_noise_and_the_global_generator_stays():
    before = torch.get_rng_state()
    for shuffle in (False, True):
        seen = []
        for inputs, _ in batches.whole_pass(DATA.DataLoader(Noisy(), batch_size=2, shuffle=shuffle)):
            assert torch.equal(torch.get_rng_state(), before)
            seen.append(inputs.ravel())
        assert len(torch.cat(seen).unique()) == 6
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("predict", [training.predict, training.predict_outputs, training.features])
def test_complex_and_sparse_tensors_are_refused_by_name(predict):
    inputs = torch.from_numpy(blobs()[0])
    for some in (inputs.to(torch.complex64), inputs.to_sparse()):
        with pytest.raises(ValueError, match=r"^inputs: expected real numbers, dense, got torch\."):
            predict(network(), some)
