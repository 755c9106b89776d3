"""Images as the pages show them: WebP copies, served by opaque token, without any metadata.

A thumbnail is what the page shows, a full image what it enlarges. Copies are made once and kept
beside the database; no comment, path or location in the original file reaches the browser.
"""
