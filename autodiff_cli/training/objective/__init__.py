"""The objective of a fit: model, parameters, data and the kernels that evaluate the loss over rows."""
