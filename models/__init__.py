"""The models: one decoder for the Qwen3, Qwen2.5 and Llama families, with weights in and out. Imports nothing of ours."""
