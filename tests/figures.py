"""Figures that the tests of tables share."""

from skillfield.evaluation import Evaluation


def evaluation_of(skills: tuple[str, ...], rate: float) -> Evaluation:
    """One rate for everything."""
    return Evaluation(
        trials=1000,
        transition_trials=50,
        seconds=10.0,
        seed=0,
        success_rate=dict.fromkeys(skills, rate),
        success_interval={},
        neighbourhood_rate=dict.fromkeys(skills, rate),
        neighbourhood_interval={},
        transition_rate={a: {b: rate for b in skills if b != a} for a in skills},
        normalised_reward=dict.fromkeys(skills, rate),
    )
