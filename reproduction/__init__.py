"""The figures of five papers: numbers, tables and pictures. `paper` holds those of the theory, `companions` those of one-pass SGD.

It imports the other packages and none of them imports it: `dmft figure` and `onepass figure` find its commands by name.
"""
