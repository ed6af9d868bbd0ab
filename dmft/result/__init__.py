"""What a solved run gives: curves and kernels with their errors, and how replicas are added up."""
