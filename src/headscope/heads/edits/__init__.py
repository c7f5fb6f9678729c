"""Changes of a forward pass: of scores, of z, of what a head reads, and of the residual stream."""
