"""`skillfield tasks`: what there is to learn, and how."""

from dataclasses import dataclass

from skillfield.clips import load_clips
from skillfield.experiments.methods import METHODS
from skillfield.experiments.tasks import TASKS

__all__ = ["Tasks"]


@dataclass(frozen=True)
class Tasks:
    """List tasks with their skills and demonstrations, and methods."""

    def run(self) -> int:
        """List."""
        print("tasks")
        for name, make in TASKS.items():
            task = make()
            print(f"  {name}: {task.summary}")
            for clip in load_clips(task.clips):
                print(f"    {clip.skill:<18} {clip.seconds:.2f} s, {len(clip)} frames")
        print("methods")
        for name, method in METHODS.items():
            print(f"  {name:<18} {method.summary}")
        return 0
