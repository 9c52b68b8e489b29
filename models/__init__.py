"""One decoder for the Qwen3, Qwen2.5 and Llama families, its weights in and out; imports nothing of ours."""
