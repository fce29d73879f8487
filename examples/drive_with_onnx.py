"""Drive plain MuJoCo with an exported policy: mujoco, numpy and onnxruntime are all that it takes.

skillfield export starter --out starter.onnx
python drive_with_onnx.py starter.onnx dribble_forward 5
"""

import json
import sys
from pathlib import Path

import mujoco
import numpy as np
import onnxruntime

path, skill, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
card = json.loads(path.with_suffix(".json").read_text())
policy = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
model = mujoco.MjModel.from_xml_path(str(path.with_suffix(".xml")))
data = mujoco.MjData(model)
mujoco.mj_resetDataKeyframe(model, data, model.key(skill).id)  # where the skill's demonstration begins
mujoco.mj_forward(model, data)

inputs = {name: np.zeros((1, *row["shape"][1:]), row["type"]) for name, row in card["inputs"].items()}
inputs["skill"][0, card["skills"].index(skill)] = 1.0
if "first" in inputs:
    inputs["first"][:] = True  # there is no past yet
root, ball = data.body(card["model"]["root"]), data.body(card["model"]["objects"][0])
distances, heights = [], []
for _ in range(round(seconds * card["policy_hz"])):
    for name, row in card["inputs"].items():
        if row["from"].startswith("MjData"):
            inputs[name] = getattr(data, name)[None].astype(np.float32)
    outputs = dict(zip(card["outputs"], policy.run(list(card["outputs"]), inputs), strict=True))
    if "first" in inputs:
        inputs["history"], inputs["first"] = outputs["next_history"], np.zeros(1, bool)
    data.ctrl[:] = outputs["ctrl"][0]
    mujoco.mj_step(model, data, card["substeps"])
    mujoco.mj_step1(model, data)  # poses and velocities of the new state
    distances.append(float(np.linalg.norm(ball.xpos - root.xpos)))
    heights.append(float(ball.xpos[2]))

last = heights[-card["policy_hz"] :]
print(f"{skill}: {seconds:g} s; in the last one the ball was {min(last):.2f} to {max(last):.2f} m high")
print(f"ball to {root.name}: {distances[-1]:.2f} m now, {max(distances):.2f} m at most; kept: {max(distances) < 1.5}")
