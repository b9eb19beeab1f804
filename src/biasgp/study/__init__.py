"""The paper's experiments again, and yours: tasks → runner → results on disk → tables.

simulated : the paper's Section 3, two data sets under eight scenarios of outliers.
sensor : the paper's Section 4, a campaign of measurements whose records are replaced by outliers.
register : a method of your own beside ours.
"""

from biasgp.study.methods import Setting, register
from biasgp.study.results import ConfigurationError, Results, load
from biasgp.study.sensor import sensor
from biasgp.study.simulated import simulated

__all__ = ["ConfigurationError", "Results", "Setting", "load", "register", "sensor", "simulated"]
