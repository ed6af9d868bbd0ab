"""Result files as theory, simulator and one-pass SGD share them: what every kind of file and checkpoint holds."""
