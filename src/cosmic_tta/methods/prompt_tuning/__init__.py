"""Methods that learn the context before the class names: CoOp, CoCoOp, TPT, DiffTPT. They need a text tower."""
