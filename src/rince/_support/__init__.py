"""What every room leans on. Private: nothing here is promised to users."""
