"""What to imitate: reference motion, and the sampler of starts. Knows nothing of the engine."""

from skillfield.reference.kinematics import Kinematics, TrackingWeights, tracking_error, tracking_exponent
from skillfield.reference.motion import ReferenceMotion
from skillfield.reference.sampling import ReferenceStateInitialisation, Starts, StartSampler

__all__ = [
    "Kinematics",
    "ReferenceMotion",
    "ReferenceStateInitialisation",
    "StartSampler",
    "Starts",
    "TrackingWeights",
    "tracking_error",
    "tracking_exponent",
]
