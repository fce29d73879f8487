"""Teach the shipped hand one more skill: it can dribble ahead and to both sides, and learns to dribble backwards.

python one_more_skill.py clips                                         # the demonstrations, in ./six_clips
python one_more_skill.py train six --start-from starter --samples 1000000 --out runs/six     # a minute
python one_more_skill.py evaluate runs/six                             # every skill from every frame: SR 100
python one_more_skill.py play runs/six --open

python one_more_skill.py train six --samples 1000000 --out runs/new    # from nothing, that is enough to hold the ball
python one_more_skill.py evaluate runs/new
python one_more_skill.py report runs/six runs/new
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

import skillfield as sf
from skillfield.evaluation.success import DribbleRule

CLIPS = Path("six_clips")


def make_clips() -> list[sf.Clip]:
    """The five that the policy has learned from, and the dribble ahead in a mirror."""
    known = sf.load_clips(sf.tasks.starter().clips)
    ahead = next(clip for clip in known if clip.skill == "dribble_forward")
    mirror = np.float32([-1, 1, 1])
    back = replace(
        ahead,
        name="dribble_back",
        skill="dribble_back",
        root_pos=ahead.root_pos * mirror,
        root_quat=ahead.root_quat * np.float32([1, 1, -1, -1]),
        object_pos=ahead.object_pos * mirror,
        object_quat=ahead.object_quat * np.float32([1, 1, -1, -1]),
        source="dribble_forward of the starter, mirrored by examples/one_more_skill.py",
    )
    return [*known, back]


def six() -> sf.Task:
    """The starter with a skill more. The order of skills is that of the rules."""
    starter = sf.tasks.starter()
    rules = {**starter.trials.rules, "dribble_back": DribbleRule(direction=(-1.0, 0.0), speed=0.8)}
    return replace(starter, name="six", clips=CLIPS, trials=replace(starter.trials, rules=rules))


if __name__ == "__main__":
    if sys.argv[1:] == ["clips"]:
        try:
            sf.save_clips(make_clips(), CLIPS)
        except sf.SkillfieldError as problem:
            print(f"error: {problem}", file=sys.stderr)
            sys.exit(2)
        print(f"{CLIPS}: {', '.join(clip.skill for clip in make_clips())}")
    else:
        sf.command_line(six)
