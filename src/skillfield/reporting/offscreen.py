"""Pictures without a window: which OpenGL library to draw with, decided once.

MuJoCo binds its OpenGL backend when it is first imported, to GLFW unless MUJOCO_GL says otherwise, and GLFW needs a
display. PyOpenGL, below it, can be told only once per process. So the libraries are tried here first, by hand.
"""

import ctypes
import ctypes.util
import importlib
import os
import sys

import mujoco
from mujoco.rendering.classic import gl_context

from skillfield.errors import NoRendererError, RenderError

__all__ = ["offscreen_renderer"]

_NEEDS = "on Debian or Ubuntu: apt install libegl1 libgl1-mesa-dri (or libosmesa6)"

_EGL_PLATFORM_DEVICE = 0x313F

_FEW = 16  # pixels along a side that anything can draw


def offscreen_renderer(model: mujoco.MjModel, width: int, height: int) -> mujoco.Renderer:
    """MuJoCo's renderer on the best library this machine has, or an error that says what to install.

    model: one's own copy; it is told how large its pictures are.
    """
    backend = os.environ.get("MUJOCO_GL") or "default"
    try:
        _choose_backend()
        return _renderer(model, width, height)
    except NoRendererError:
        raise
    except Exception as problem:  # every OpenGL backend fails in its own way
        limit = _limit(model) if _about_size(problem) else None
        if limit is None:
            raise NoRendererError(f"cannot draw (OpenGL {backend}): {problem}; {_NEEDS}") from None
    drawn = f"a picture drawn with {width}x{height} pixels"
    raise RenderError(f"{drawn} is too large for the renderer (OpenGL {backend}): at most {limit} along a side")


def _renderer(model: mujoco.MjModel, width: int, height: int) -> mujoco.Renderer:
    model.vis.global_.offwidth, model.vis.global_.offheight = width, height
    return mujoco.Renderer(model, height=height, width=width)


def _about_size(problem: Exception) -> bool:
    """Whether it is MuJoCo's error for a buffer that cannot be so large, or Python's for a number that cannot be.

    After any other one nothing else may be tried: MuJoCo ends the process if OpenGL is missing for the second time.
    """
    return isinstance(problem, TypeError) or "offscreen framebuffer" in str(problem).lower()


def _limit(model: mujoco.MjModel) -> int | None:
    """Pixels along a side that can be drawn at most; None where not even a few can."""
    try:
        with _renderer(model, _FEW, _FEW):
            opengl = importlib.import_module("OpenGL.GL")  # MuJoCo's own; it is told what to use before it is imported
            return int(opengl.glGetIntegerv(opengl.GL_MAX_RENDERBUFFER_SIZE))
    except Exception:
        return None


def _choose_backend() -> None:
    """Bind MuJoCo to EGL, else to OSMesa. A MUJOCO_GL of the user's own is obeyed, as are macOS and Windows."""
    if os.environ.get("MUJOCO_GL") or not sys.platform.startswith("linux"):
        return
    if _egl_works():
        from mujoco.egl import GLContext
    elif ctypes.util.find_library("OSMesa"):
        from mujoco.osmesa import GLContext
    elif os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        return
    else:
        raise NoRendererError(f"no OpenGL library for drawing without a display; {_NEEDS}")
    gl_context.GLContext = GLContext


def _egl_works() -> bool:
    """Whether a device can be opened; an installed libEGL without a driver can not."""
    name = ctypes.util.find_library("EGL")
    if name is None:
        return False
    egl = ctypes.CDLL(name)
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    query, display_of = (egl.eglGetProcAddress(f) for f in (b"eglQueryDevicesEXT", b"eglGetPlatformDisplayEXT"))
    if not (query and display_of):
        return False
    pointer, integer = ctypes.c_void_p, ctypes.c_int
    devices, count = (pointer * 16)(), integer(0)
    ctypes.CFUNCTYPE(integer, integer, pointer, pointer)(query)(16, devices, ctypes.byref(count))
    for device in devices[: count.value]:
        display = ctypes.CFUNCTYPE(pointer, integer, pointer, pointer)(display_of)(_EGL_PLATFORM_DEVICE, device, None)
        if display and egl.eglInitialize(pointer(display), None, None):
            return True  # left open: MuJoCo opens the same display again
    return False
