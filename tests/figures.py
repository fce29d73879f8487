"""Figures and runs that the tests of tables share."""

from pathlib import Path

from skillfield.evaluation import Evaluation
from skillfield.experiments.run import RunConfig, save_config
from skillfield.files import write_json


def evaluation_of(skills: tuple[str, ...], rate: float) -> Evaluation:
    """One rate for everything."""
    return Evaluation(
        trials=1000,
        transition_trials=50,
        seconds=10.0,
        seed=0,
        success_rate=dict.fromkeys(skills, rate),
        success_interval=dict.fromkeys(skills, (0.0, 1.0)),
        neighbourhood_rate=dict.fromkeys(skills, rate),
        neighbourhood_interval=dict.fromkeys(skills, (0.0, 1.0)),
        transition_rate={a: {b: rate for b in skills if b != a} for a in skills},
        normalised_reward=dict.fromkeys(skills, rate),
    )


def trained_run(folder: Path, config: RunConfig, samples: int) -> None:
    """A run as far as a table looks at it: its settings, and how far its newest checkpoint has come."""
    save_config(config, folder)
    state = {
        "format": 1,
        "identity": {},
        "counters": {"samples": samples, "updates": 1, "seconds": 1.0},
        "kl_factor": 1.0,
        "observations": 1,
        "actions": 1,
        "hidden": [1],
    }
    write_json(folder / "checkpoints" / "00000001" / "state.json", state)
    (folder / "checkpoints" / "latest").write_text("00000001\n")
