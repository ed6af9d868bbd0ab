"""What `import dmft` offers of the experiment: run files, the objects that they name, and the base classes of a user's own."""

from dmft.core.schema import boolean, choice, integer, number, option
from dmft.model.channels import Abs, Channel, Field, Sign, Square
from dmft.model.classification import Door, Logistic, SmoothHinge
from dmft.model.constraints import Constraint, Ridge, Sphere
from dmft.model.kinds import SGD, Drawing, GradientDescent, Langevin, PersistentSGD
from dmft.model.law import DataModel
from dmft.model.loss_family import LossFamily
from dmft.model.losses import Linear, PhaseRetrieval, register_loss
from dmft.model.mixture import Mixture
from dmft.model.network_constraints import NetworkConstraint
from dmft.model.p_spin import PSpin
from dmft.model.preprocessing import register_preprocessing
from dmft.model.runfile import Experiment, Run, load_run, parse_run
from dmft.model.sample_averages import register_observable
from dmft.model.schedules import ScheduleForm, quantity
from dmft.model.starts import Random, Spectral, Start, Warm
from dmft.model.teacher import Teacher
from dmft.model.updates import LinearUpdate

__all__ = [
    "Abs", "Channel", "Constraint", "DataModel", "Door", "Drawing", "Experiment", "Field", "GradientDescent", "Langevin",
    "Linear", "LinearUpdate", "Logistic", "LossFamily", "Mixture", "NetworkConstraint", "PSpin", "PersistentSGD",
    "PhaseRetrieval", "Random", "Ridge", "Run", "SGD", "ScheduleForm", "Sign", "SmoothHinge", "Spectral", "Sphere", "Square",
    "Start", "Teacher", "Warm", "boolean", "choice", "integer", "load_run", "number", "option", "parse_run", "quantity",
    "register_loss", "register_observable", "register_preprocessing",
]
