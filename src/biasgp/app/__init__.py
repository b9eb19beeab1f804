"""The local page: a thin shell on `analysis` and `report`, for one person on this machine."""
