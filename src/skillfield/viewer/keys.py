"""Which key does what.

viser hands keys to the page's commands, but its camera listens to WASD, Q, E and the arrows as well. `GUARD` is a
piece of HTML that keeps those from the camera, which the mouse moves anyway, and takes the focus off whatever was
clicked last, so that the space bar pauses instead of clicking it again.
"""

from collections.abc import Sequence

__all__ = ["GUARD", "PAGE_KEYS", "key_label", "skill_keys"]

PAGE_KEYS = {
    "pause": "space",
    "step": "N",
    "reset": "R",
    "follow": "F",
    "ghost": "G",
    "push body": "P",
    "push ball": "B",
    "record": "V",
}
"""What the page itself listens to."""

_ARROWS = {"forward": "arrowup", "left": "arrowleft", "right": "arrowright", "back": "arrowdown"}
_LABELS = {"arrowup": "↑", "arrowleft": "←", "arrowright": "→", "arrowdown": "↓", "space": "Space"}


def skill_keys(skills: Sequence[str]) -> dict[str, str]:
    """Skill → key: an arrow for a direction, else the first free letter of its name, else a digit."""
    taken = set(PAGE_KEYS.values())
    keys: dict[str, str] = {}
    for skill in skills:
        arrow = _ARROWS.get(skill.split("_")[-1])
        wanted = [arrow] if arrow else []
        wanted += [letter for letter in skill.upper() if letter.isascii() and letter.isalpha()]
        wanted += list("1234567890")
        free = [key for key in wanted if key not in taken]
        if free:
            keys[skill] = free[0]
            taken.add(free[0])
    return keys


def key_label(key: str) -> str:
    """A key as it is shown on a button."""
    return _LABELS.get(key, key)


_SCRIPT = """
if (!window.skillfieldGuard) {
  window.skillfieldGuard = true;
  const camera = ['KeyW','KeyA','KeyS','KeyD','KeyQ','KeyE','ArrowUp','ArrowDown','ArrowLeft','ArrowRight'];
  document.documentElement.addEventListener('keydown', event => {
    if (camera.includes(event.code)) event.stopPropagation();
  });
  document.addEventListener('pointerup', () => setTimeout(() => {
    const focused = document.activeElement;
    if (focused && !['INPUT', 'TEXTAREA', 'SELECT'].includes(focused.tagName)) focused.blur();
  }));
}
"""

_DOT = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="

GUARD = f'<img src="{_DOT}" alt="" style="display:none" onload="{" ".join(_SCRIPT.split())}">'
"""HTML for the page. Scripts in inserted HTML do not run; the handler of a picture that has loaded does."""
