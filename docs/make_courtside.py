"""Records the shipped `courtside` clips anew: `python docs/make_courtside.py RUN --data CLIPS`.

RUN is a run of the task `ballplay`, CLIPS the imported recordings that it was trained on. The clips in the package, the
table in courtside.md and the picture above it are replaced.
"""

import argparse
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from skillfield.characters import Character
from skillfield.characters.humanoid import humanoid
from skillfield.cli.record import DataRecord
from skillfield.clips import Clip, load_clips
from skillfield.experiments.courtside import CLIP_FOLDER
from skillfield.reference.depths import clip_depths
from skillfield.reference.motion import clip_positions
from skillfield.reporting.filmstrip import filmstrip, stack_strips
from skillfield.reporting.scene import SceneRenderer

PAGE = Path(__file__).with_name("courtside.md")
PICTURE = Path(__file__).parent / "images" / "courtside.png"
SOURCE = "the policy is skillfield's own, trained on BallPlay-M"
TILE_WIDTH, TILE_HEIGHT, TILES = 150, 190, 6


def main(run: Path, data: Path | None) -> None:
    """Clips, table, picture."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "clips"
        DataRecord(run, fresh, prefix="courtside", source=SOURCE, data=data).run()
        replace_clips(fresh, CLIP_FOLDER)
    clips, character = load_clips(CLIP_FOLDER), humanoid("fused")
    table = "\n".join(figures(clips, character))
    PAGE.write_text(re.sub(r"(?<=\n\n)\| Clip \|.*?(?=\n\n)", table, PAGE.read_text(), count=1, flags=re.DOTALL))
    draw(clips, character)


def replace_clips(fresh: Path, folder: Path) -> None:
    """Put new clips in the place of the old ones."""
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.npz"):
        old.unlink()
    for new in fresh.glob("*.npz"):
        (folder / new.name).write_bytes(new.read_bytes())


def figures(clips: Sequence[Clip], character: Character) -> list[str]:
    """The table of the page, in lines."""
    lines = [
        "| Clip | Frames | Seconds | Started in frame | Whole trial | Feet in floor | Ball in floor | Ball in body |",
        "|---|---:|---:|---|---|---:|---:|---:|",
    ]
    for clip in clips:
        start = re.search(r"start in frame (\d+) of '(.*?)'", clip.source)
        assert start
        whole = "success" if "is a success" in clip.source else "no success"
        depths = clip_depths(clip, character)
        deep = (depths.character_in_floor, depths.object_in_floor, depths.object_in_character)
        cells = (
            f"`{clip.name}`",
            f"{len(clip)}",
            f"{clip.seconds:.2f}",
            f"{start[1]} of `{start[2]}`",
            whole,
            *(f"{100 * depth:.1f} cm" for depth in deep),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def draw(clips: Sequence[Clip], character: Character) -> None:
    """A row per clip, time runs to the right."""
    strips = []
    for clip in clips:
        qpos = clip_positions(clip, character).numpy()
        chosen = np.linspace(0, len(clip) - 1, TILES).round().astype(int)
        with SceneRenderer(character, TILE_WIDTH, TILE_HEIGHT) as scene:
            scene.hold_view(qpos[chosen])
            frames = [scene.frame(qpos[frame]) for frame in chosen]
        strips.append(filmstrip(frames, [f"{frame / clip.fps:.2f} s" for frame in chosen], clip.name))
    picture = Image.fromarray(stack_strips(strips))
    picture.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(PICTURE, optimize=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="run folder with a checkpoint")
    parser.add_argument("--data", type=Path, help="folder of imported recordings, if they lie elsewhere than usual")
    arguments = parser.parse_args()
    main(arguments.run, arguments.data)
