"""10.experts: right builds, earlier ones, and wrong ones, for the tables of its seven steps."""
