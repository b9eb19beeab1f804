"""Results → figures and pages. Works on plain records; knows nothing of models."""
