"""
Detecting outliers in a CSV
===========================

A data logger wrote a table with a time, temperature, humidity, and a gas in ppb. Which readings are wrong, and by how
much?
"""

import tempfile
from pathlib import Path

import pandas as pd

from biasgp import SparseBiasGP
from biasgp.data import campaign
from biasgp.kernels import Matern32
from biasgp.plot import FitDisplay

scratch = tempfile.TemporaryDirectory()
folder = Path(scratch.name)
campaign().table()[200:500].to_csv(folder / "readings.csv", index=False)  # a simulated logger; take your own file

# %%
# Read the table, fit, and look:

table = pd.read_csv(folder / "readings.csv", parse_dates=["time"])
features = ["time", "temperature_c", "humidity_pct"]
model = SparseBiasGP(Matern32(ard=True)).fit(table[features], table["no_ppb"])
display = FitDisplay.from_estimator(model, "time")

# %%
# One row per reading; these are the flagged ones:

frame = model.to_frame()
flagged = frame[model.outlier_mask_].round(2)
flagged

# %%
# The same table with two more columns, to go on with:

table["probability"] = model.outlier_probability_.round(3)
table["cleaned"] = table["no_ppb"] - model.bias_
table.to_csv(folder / "cleaned.csv", index=False)

# %%
# On the command line, ``biasgp fit readings.csv --target no_ppb --features time,temperature_c,humidity_pct`` does this,
# says it in words and writes a page to zoom in. It is run here to show what it says:

import subprocess
import sys

options = ["--target", "no_ppb", "--features", ",".join(features), "--out", "results"]
command = [sys.executable, "-m", "biasgp", "fit", "readings.csv", *options]
done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
print(done.stdout)
