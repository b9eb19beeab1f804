"""The paper's experiments again, and yours: tasks → runner → results on disk → tables.

simulated : the paper's Section 3, two data sets under eight scenarios of outliers.
sensor : the paper's Section 4, a campaign of measurements whose records are replaced by outliers.
dirty_tables : every table of a folder, dirtied in six ways.
register : a method of your own beside ours.
"""

from biasgp.runner import Execution
from biasgp.study.dirty_tables import TablesDesign, dirty_tables
from biasgp.study.methods import Setting, register
from biasgp.study.results import ConfigurationError, Results, load
from biasgp.study.sensor import SensorDesign, sensor
from biasgp.study.simulated import SimulatedDesign, simulated

__all__ = ["ConfigurationError", "Execution", "Results", "SensorDesign", "Setting", "SimulatedDesign", "TablesDesign"]
__all__ += ["dirty_tables", "load", "register", "sensor", "simulated"]
