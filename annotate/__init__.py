"""The Gradio app: what an annotator and a study owner see."""
