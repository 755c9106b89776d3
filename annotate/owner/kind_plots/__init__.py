"""The dashboard's plots of question kinds other than pairs."""
