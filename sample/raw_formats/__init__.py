"""Writers of the native files, one function per corpus."""
