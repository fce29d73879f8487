"""A character in real time in the browser: play a policy, disturb it, look at clips and at the graph over them."""
