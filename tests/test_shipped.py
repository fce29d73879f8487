"""Policies that come with the package."""

from pathlib import Path

import pytest
import torch

from skillfield.api import evaluate, load_networks
from skillfield.errors import CheckpointError
from skillfield.experiments.shipped import is_shipped, pack_policy, run_folder, shipped_policies


def test_a_folder_goes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`starter` is the shipped policy unless there is a folder of that name here."""
    monkeypatch.chdir(tmp_path)
    assert run_folder("starter") == shipped_policies()["starter"]
    assert is_shipped(run_folder("starter"))
    Path("starter").mkdir()
    assert run_folder("starter") == Path("starter")


def test_an_unknown_name_says_what_is_there() -> None:
    """Neither a folder nor a shipped policy: both are named."""
    with pytest.raises(CheckpointError, match=r"nowhere: no such run folder.*'starter'"):
        run_folder("nowhere")


def test_half_precision_hardly_changes_what_it_does(tmp_path: Path) -> None:
    """A packed policy is smaller and acts as the run it was made of."""
    source = run_folder("starter")
    pack_policy(source, tmp_path / "packed")
    model, again = load_networks(source), load_networks(tmp_path / "packed")
    seen = torch.randn(64, model.normaliser.mean.numel(), generator=torch.Generator().manual_seed(0))
    assert torch.equal(model.act(seen), again.act(seen))


def test_the_starter_policy_has_its_skills() -> None:
    """What is shipped works: the easy skills nearly always, and nothing is written beside it."""
    result = evaluate("starter", trials=8)
    assert result.averages()["success_rate"] > 0.8
    assert not (run_folder("starter") / "evaluation.json").exists()
