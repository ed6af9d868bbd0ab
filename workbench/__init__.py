"""What users see of results: inspection, pictures, reports, scans, jobs and the commands.

It imports dmft, sgd_sim and onepass; they reach it by name alone, from what users know: `dmft.compare`, `theory.plot()`, commands.
"""
