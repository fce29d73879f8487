"""BallPlay-M: the paper's own problem."""

from skillfield.experiments.ballplay.task import ballplay, ballplay_full_hands, ballplay_paper

__all__ = ["ballplay", "ballplay_full_hands", "ballplay_paper"]
