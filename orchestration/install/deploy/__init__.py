"""Files that put a pipeline under a service manager: systemd units, Kubernetes manifests, a compose file."""
