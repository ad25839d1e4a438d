"""Writers of the native files, one function a corpus."""
