"""What joins the queue to other packages, a module for each."""
