"""The models on nearest-neighbour covariances: the same results, from readings by the million."""
