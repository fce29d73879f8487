"""`skillfield tasks`: what there is to learn, and how."""

from dataclasses import dataclass

from skillfield.errors import ClipError
from skillfield.experiments.methods import METHODS
from skillfield.experiments.recordings import task_clips
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
            try:
                for clip in task_clips(task):
                    print(f"    {clip.skill:<18} {clip.seconds:.2f} s, {len(clip)} frames")
            except ClipError:
                print(f"    {', '.join(task.skills)}: recordings not imported yet, see `skillfield data import --help`")
        print("methods")
        for name, method in METHODS.items():
            print(f"  {name:<18} {method.summary}")
        return 0
