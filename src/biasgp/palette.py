"""The colours of all pictures: Okabe and Ito's, which the colour-blind tell apart, with a grey and an ink."""

from __future__ import annotations

BLUE, SKY, GREEN = "#0072B2", "#56B4E9", "#009E73"
ORANGE, AMBER, PURPLE = "#D55E00", "#E69F00", "#CC79A7"
GREY, INK = "#8a9099", "#1f2933"
