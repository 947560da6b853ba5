"""Results as pages: one self-contained HTML file each, which asks for nothing over the network."""
