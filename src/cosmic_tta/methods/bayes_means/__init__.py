"""Bayesian class means."""
