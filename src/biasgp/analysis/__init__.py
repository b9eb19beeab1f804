"""From a table to all that a person wants to know about its fit: the layer under command, report, notebook and app."""
