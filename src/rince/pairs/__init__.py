"""Reading and writing pairs: arrays, tables, texts and media files, in one file or in shards."""
