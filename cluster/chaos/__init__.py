"""Mixed runs on the cluster while everything is killed, frozen and cut; then what must hold."""
