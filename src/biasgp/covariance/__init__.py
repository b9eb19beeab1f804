"""The algebra of K = C(θ) + noise, behind one protocol (`protocol`)."""
