"""What an audit reads: columns of numbers, values and raw items, in files, folders and tables."""
