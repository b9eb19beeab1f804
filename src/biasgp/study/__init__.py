"""The paper's experiments again, and yours: tasks → runner → results on disk → tables.

simulated : the paper's Section 3, two data sets under eight scenarios of outliers.
sensor : the paper's Section 4, a campaign of measurements whose records are replaced by outliers.
register : a method of your own beside ours.
"""

from biasgp.runner import Execution
from biasgp.study.methods import Setting, register
from biasgp.study.results import ConfigurationError, Results, load
from biasgp.study.sensor import SensorDesign, sensor
from biasgp.study.simulated import SimulatedDesign, simulated

__all__ = ["ConfigurationError", "Execution", "Results", "SensorDesign", "Setting", "SimulatedDesign"]
__all__ += ["load", "register", "sensor", "simulated"]
