"""The report in its formats: the page, CSV, LaTeX, and charts as SVG, PNG and PDF."""
