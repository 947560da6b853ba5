"""Methods and features that the paper compares with."""
