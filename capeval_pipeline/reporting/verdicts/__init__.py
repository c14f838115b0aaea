"""Sentences: numbers in, one plain sentence out, with its interval and its control. A module a stage."""
