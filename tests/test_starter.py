"""The starter's demonstrations: authored, damaged on purpose, and physically possible."""

import numpy as np
import pytest

from skillfield.characters import Character
from skillfield.characters.hand import BALL
from skillfield.clips import load_clips
from skillfield.experiments.starter.authoring import CLIP_FOLDER, author_clean, author_noisy, to_clip
from skillfield.experiments.starter.replay import replay_error
from skillfield.experiments.tasks import starter
from skillfield.reference.checking import check_against_character

SKILLS = starter().skills


def test_the_shipped_clips_are_what_the_script_authors() -> None:
    """Anyone can make them again."""
    authored = author_noisy()
    shipped = {clip.skill: clip for clip in load_clips(CLIP_FOLDER)}
    assert set(shipped) == set(authored) == set(SKILLS)
    for skill, motion in authored.items():
        np.testing.assert_allclose(shipped[skill].object_pos, to_clip(skill, motion, "").object_pos, atol=1e-6)
        np.testing.assert_allclose(shipped[skill].root_pos, to_clip(skill, motion, "").root_pos, atol=1e-6)


def test_one_short_clip_per_skill() -> None:
    """0.7 to 2 seconds each."""
    for clip in load_clips(CLIP_FOLDER):
        assert 0.7 <= clip.seconds <= 2.0, clip.name


def test_no_clip_has_an_error(hand_character: Character) -> None:
    """Warnings are the noise that is meant to be there."""
    for clip in load_clips(CLIP_FOLDER):
        findings = check_against_character(clip, hand_character, SKILLS)
        assert not [finding for finding in findings if finding.severity == "error"], clip.name


@pytest.mark.parametrize("skill", SKILLS)
def test_the_hand_can_do_every_motion_open_loop(skill: str, hand_character: Character) -> None:
    """After 0.25 s without feedback the ball is within 4 cm (median) and 12 cm (worst) of the clean motion."""
    error = replay_error(skill, author_clean()[skill], hand_character)
    assert np.median(error) < 0.04
    assert error.max() < 0.12


def test_the_noise_is_what_it_claims() -> None:
    """The ball is off by about 2 cm on average, never by more than 6."""
    clean, noisy = author_clean(), author_noisy()
    for skill in SKILLS:
        off = np.linalg.norm(noisy[skill].ball - clean[skill].ball, axis=1)
        assert 0.01 < off.mean() < 0.03, skill
        assert off.max() < 0.06, skill


def test_the_skills_are_apart() -> None:
    """Dribble heights differ by more than the ball's radius, so that switching is a real transition."""
    top = {skill: motion.ball[:, 2].max() for skill, motion in author_clean().items()}
    assert top["dribble_right"] - top["dribble_forward"] > BALL.radius
    assert top["dribble_forward"] - top["dribble_left"] > BALL.radius


def test_the_toss_waits_and_does_not_loop() -> None:
    """Half a second of stillness in which nothing tells the frames apart, and an end far from its beginning."""
    motion = author_clean()["toss"]
    still = (np.abs(np.diff(motion.ball, axis=0)).max(axis=1) < 1e-9) & (motion.touching[1:] > 0)
    assert 0.45 <= still.sum() / 60 <= 0.65
    assert np.linalg.norm(motion.ball[-1] - motion.ball[0]) > 0.5
