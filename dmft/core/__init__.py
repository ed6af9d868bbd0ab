"""What both halves and onepass share: run files, streams, parallel sums, storage, progress. No physics."""
