"""The command `cosmic`."""
