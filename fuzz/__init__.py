"""Coverage-guided fuzzing of everything that reads what people bring; run by hand, `make fuzz`."""
