"""The documentation as a site: pages of the repository, with links that hold there and on a code host."""
