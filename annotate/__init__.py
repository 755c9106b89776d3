"""The Gradio app: the annotators' pages and the study owner's studio."""
