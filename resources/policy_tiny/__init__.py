"""The tiny policy: checkpoint, tokenizer, warm start."""
