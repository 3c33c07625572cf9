"""Any file system that the user's Hadoop configuration reaches, by Hadoop's client in a JVM."""
