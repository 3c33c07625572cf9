"""Any file system that the user's Hadoop configuration reaches."""
