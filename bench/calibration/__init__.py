"""Calibration: kernels measured on Trainium by others, written again here, and what their measurements say.

`measured` reads the measurements, `cases` says which kernel on which shapes stands for each, `groups` sorts them, and
`compare` sets predictions against them. README.md tells what the data show.
"""
