"""Several releases as one: `renaming` makes their ids differ, `merge` writes the new release."""
