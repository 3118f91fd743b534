"""Images: `decode`, `preprocess` for an encoder, `augment` into several views, `corrupt` to shift the domain."""
