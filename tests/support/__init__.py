"""What several tests share: data made on the spot, other processes, programs, and settings of runs."""
