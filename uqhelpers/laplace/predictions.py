"""One prediction with its parts, whichever posterior it comes from."""

from uqhelpers.laplace.last_layer import LastLayerLaplace
from uqhelpers.laplace.library import LaplaceTorch


def predict(posterior, inputs, samples=100, seed=0, batch_size=250):
    """The averaged prediction of a Laplace posterior, with its uncertainties.

    The posteriors' own ``predict`` gives probabilities by a formula, of which
    there are no parts; here networks are sampled, as every method does whose
    ``predict`` tells them apart.

    Parameters
    ----------
    posterior : LastLayerLaplace or LaplaceTorch
        Fitted.
    inputs : array, shape (N, ...)
    samples : int
        Sampled networks; a regression, where all is in closed form, needs none.
    seed : int
        The same seed gives the same networks.
    batch_size : int, inputs at a time

    Returns
    -------
    uqhelpers.metrics.SampledDecomposition or RegressionPrediction
        Of a classification: averaged probabilities with total, aleatoric and
        epistemic uncertainty in nats, for each input. Of a regression: mean and
        standard deviations.
    """
    if not isinstance(posterior, LastLayerLaplace | LaplaceTorch):
        raise ValueError(
            f"posterior: expected a fitted Laplace approximation, got {type(posterior).__name__}"
        )
    likelihood = (
        posterior.likelihood if isinstance(posterior, LastLayerLaplace) else posterior.fitted.likelihood
    )
    if str(getattr(likelihood, "value", likelihood)) == "regression":
        return posterior.predict_regression(inputs, batch_size)
    return posterior.decompose(inputs, samples, seed, batch_size)
