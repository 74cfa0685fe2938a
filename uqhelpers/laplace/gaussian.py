"""Below ``LastLayerLaplace``: the Gaussian itself, and what is computed of it once."""

import numpy as np
from scipy import linalg

from uqhelpers._checks import as_generator, as_whole
from uqhelpers.batches import gather
from uqhelpers.laplace.curvature import batches, targets_of
from uqhelpers.laplace.prior import gaussian_scores, most_probable, softmax_scores
from uqhelpers.training import as_inputs

LIKELIHOODS = ("classification", "regression")


class LastLayerGaussian:
    """Precision, covariance and draws of a last layer's weights, from curvature and prior.

    What inherits it sets ``model``, ``likelihood``, ``prior_precision``, ``noise_std``, and what
    ``LastLayerLaplace.fit`` finds.
    """

    def _most_probable(self, noise):
        """α and σ at the maximum of the marginal likelihood."""
        curvature, regression = np.maximum(self._eigen()[0], 0), self.likelihood == "regression"
        if not self._weight.any() or self._largest == 0:
            what = "weights" if self._largest else "features"
            raise ValueError(f"model: expected a last layer whose {what} are not all 0, to choose a prior by")
        if curvature.max() == 0:
            raise ValueError(
                "model: expected a network that leaves some doubt, got one that is sure of every training "
                "input to the last digit: its likelihood has no curvature to choose a prior by"
            )
        extra = (self._fit_at_mode, self._count) if noise else ()
        return most_probable(curvature, self._weight, *((self.noise_std, *extra) if regression else ()))

    def _held_out(self, inputs, targets, candidates):
        """Log likelihood of held-out data for each candidate α, shape (candidates,)."""
        inputs, targets = (None, None) if inputs is None else gather(inputs, targets)
        if inputs is None or targets is None:
            raise ValueError('inputs, targets: expected held-out data for method="validation", got none')
        tensor = as_inputs(inputs, self.model)
        targets = targets_of(self.likelihood, targets, len(tensor), len(self._weight))
        values, vectors = self._eigen()
        score, noise = (
            (softmax_scores, ())
            if self.likelihood == "classification"
            else (
                gaussian_scores,
                (self.noise_std,),
            )
        )
        scores = np.zeros(len(candidates))
        for start, features in batches(self.model, self._layer, tensor, 500, self._has_bias):
            there = targets[start : start + len(features)]
            known = (np.maximum(values, 0), vectors)
            scores += score(features, features @ self._weight.T, there, known, candidates, *noise)
        return scores

    # --- what is computed once ---------------------------------------------------------------------------

    def _forget(self, keep=None):
        kept = self._cache.get(keep)
        self._cache = {} if kept is None else {keep: kept}

    def _remember(self, name, compute):
        if name not in self._cache:
            self._cache[name] = compute()
        return self._cache[name]

    def _eigen(self):
        return self._remember("eigen", lambda: linalg.eigh(self._information))

    def _block_precision(self):
        """The precision, in a regression of one output's weights: those of another have the same."""
        self._fitted()
        scale = self.noise_std**2 if self.likelihood == "regression" else 1.0
        precision = self._information / scale
        precision[np.diag_indices_from(precision)] += self.prior_precision
        return precision

    def _factor(self):
        return self._remember("factor", lambda: linalg.cholesky(self._block_precision(), lower=True))

    def _block_covariance(self):
        def inverse():
            half = linalg.solve_triangular(self._factor(), np.eye(len(self._factor())), lower=True)
            return half.T @ half

        return self._remember("covariance", inverse)

    def _whole(self, block):
        return np.kron(np.eye(len(self._weight)), block) if self.likelihood == "regression" else block

    def _variances(self, features):
        """Variance of every output, shape (N, K)."""
        covariance = self._block_covariance()
        outputs, width = self._weight.shape
        if self.likelihood == "regression":
            variance = np.einsum("nd,nd->n", features @ covariance, features)[:, None]
            return np.maximum(np.repeat(variance, outputs, axis=1), 0)
        blocks = (
            covariance[c * width : (c + 1) * width, c * width : (c + 1) * width] for c in range(outputs)
        )
        variance = [np.einsum("nd,nd->n", features @ block, features) for block in blocks]
        return np.maximum(np.stack(variance, axis=1), 0)

    def _draws(self, samples, seed):
        """Sampled last layers, shape (S, C, D + 1)."""
        samples, rng = as_whole(samples, "samples"), as_generator(seed)
        noise = rng.standard_normal((self._weight.size, samples))
        shift = linalg.solve_triangular(self._factor(), noise, lower=True, trans="T")
        return self._weight + shift.T.reshape(samples, *self._weight.shape)

    def _features(self, inputs, batch_size):
        self._fitted()
        tensor, size = as_inputs(inputs, self.model), as_whole(batch_size, "batch_size")
        for _, features in batches(self.model, self._layer, tensor, size, self._has_bias):
            yield features

    def _fitted(self):
        if self._information is None:
            raise ValueError("fit: expected to be called first, got a posterior that has seen no data")
        return self

    def _only(self, likelihood, name):
        self._fitted()
        if self.likelihood != likelihood:
            raise ValueError(f"{name}: expected likelihood {likelihood!r}, got {self.likelihood!r}")
