"""Extraction of features: from images to a feature pack, resumable after any interruption.

`plan` says what has to be done, `loader` decodes images, `engine` encodes them, `resume` keeps what is done on disk,
`finish` writes the pack, and `extract` runs it all.
"""
