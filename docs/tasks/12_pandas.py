"""Put every statistic of every head into a pandas table."""

import headscope

table = headscope.load().look("My white horse drank at the river. My white horse drank at the").to_pandas()
print(table[table.statistic == "induction"].nlargest(5, "mean"))
