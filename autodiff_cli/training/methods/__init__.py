"""The methods that minimise an objective: gradient methods, Levenberg-Marquardt, L-BFGS and Newton."""
