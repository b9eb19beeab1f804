"""The science: pure functions and frozen results; no scikit-learn, no I/O. One file per model.

Every model takes a response that is centred and scaled already, and a kernel that is bound to X.
"""
