"""One model spread over the processes of torchrun."""
