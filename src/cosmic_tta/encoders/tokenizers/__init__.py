"""Tokenizers from sentences to token numbers: `clip` in plain Python, `hf_file` from tokenizer.json, `words`."""
