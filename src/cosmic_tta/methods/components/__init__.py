"""What several methods share: caches, prototypes, class statistics, view selection, optimisers."""
