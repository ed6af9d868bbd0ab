"""Looking into files: one view of every kind of result and of live checkpoints. Reads, computes no physics."""
