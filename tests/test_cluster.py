"""What is computed on a cluster is what one process computes. One cluster serves all who ask."""

import os
import signal

import numpy as np
import pytest

from tests import test_active_learning, test_deep_ensembles
from tests.test_deep_ensembles import moons  # noqa: F401
from uqhelpers import deep_ensembles as de
from uqhelpers import leaderboard
from uqhelpers._torch import torch

cloudpickle, joblib = pytest.importorskip("cloudpickle"), pytest.importorskip("joblib")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    """Two worker processes on the loopback."""
    with (
        distributed.LocalCluster(
            host="127.0.0.1",
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # another cluster may have the usual port
            processes=True,
            n_workers=2,
            threads_per_worker=1,
            silence_logs=50,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def on_the_cluster(client, request):
    """``with on_the_cluster():`` its workers compute, both of them, even after a test that killed one."""
    modules = [request.module, test_active_learning, test_deep_ensembles]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # the workers cannot import these files
    client.wait_for_workers(2)
    yield lambda: joblib.parallel_config("dask")
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.slow
def test_active_learning_asks_for_the_same(on_the_cluster):
    here, there = test_active_learning.World(), test_active_learning.World()
    expected = test_active_learning.run(here)
    with on_the_cluster():
        got = test_active_learning.run(there)
    assert [c.asked.tolist() for c in got] == [c.asked.tolist() for c in expected]
    assert here.fits
    assert not there.fits  # this process has fitted nothing


@pytest.mark.slow
def test_the_leaderboard_is_the_same_table(on_the_cluster, tmp_path):
    names = ["temperature"]
    alone = leaderboard.run(names, range(2), folder=tmp_path / "a", progress=False, resamples=1)
    with on_the_cluster():
        together = leaderboard.run(names, range(2), folder=tmp_path / "b", progress=False, resamples=1)
    clocks = {"fit_cost", "predict_cost"}
    for one, other in zip(alone, together, strict=True):
        assert (one.method, one.seed) == (other.method, other.seed)
        for name in set(one.figures) - clocks:
            assert np.array_equal(one.figures[name], other.figures[name], equal_nan=True), name


class KillOnce:
    """Trains as ``quick`` does, but one member first kills the worker it runs in."""

    def __init__(self, moons, marker, victim):  # noqa: F811
        self.moons, self.marker, self.victim = moons, str(marker), victim

    def __call__(self, network, seed):
        if seed == self.victim and not os.path.exists(self.marker):
            open(self.marker, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        test_deep_ensembles.quick(*self.moons)(network, seed)


@pytest.mark.slow
def test_an_ensemble_is_the_same_though_a_worker_is_lost(on_the_cluster, moons, tmp_path):  # noqa: F811
    """Eight members, and one of the two worker processes is killed while it trains."""
    expected = de.sample(test_deep_ensembles.trained(moons, members=8, threads=1), moons[0])
    marker = tmp_path / "killed"
    options = {"folder": tmp_path / "kept", "settings": {"epochs": 3}, "threads": 1, "progress": False}
    with on_the_cluster():
        fit = KillOnce(moons, marker, victim=de.member_seeds(8)[3])
        networks = de.fit_members(test_deep_ensembles.small_network, fit, 8, **options)
    assert marker.exists()
    assert np.allclose(de.sample(networks, moons[0]), expected, atol=1e-6)
    files = sorted((tmp_path / "kept").iterdir())
    assert [path.name for path in files] == [f"member_{place:03d}.pt" for place in range(8)]
    assert all(torch.load(path, weights_only=True)["state"] for path in files)

    # Begun again, only the member whose file is missing is trained.
    files[5].unlink()
    again = []

    def count(network, seed):
        again.append(seed)
        test_deep_ensembles.quick(*moons)(network, seed)

    networks = de.fit_members(test_deep_ensembles.small_network, count, 8, **options)
    assert again == [de.member_seeds(8)[5]]
    assert np.allclose(de.sample(networks, moons[0]), expected, atol=1e-6)
