"""How the tiny policy was made: lessons as tokens, a tokenizer, a circuit, the warm start."""
