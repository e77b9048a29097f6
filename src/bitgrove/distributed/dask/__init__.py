"""Ranks as Dask workers, over the connections that Dask has anyway."""
