"""What each command does: thin, one file a group. `cli.py` puts them together."""
