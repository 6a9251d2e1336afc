"""Embedded SQL analytics over the traces of distributed LLM training and inference.

    import ccl_sql

    [trace] = ccl_sql.ingest("trace_collection/llama-tiny-fsdp2-tp2-4")
    ccl_sql.metric("coll_call_num", trace).value         # 48.0
    ccl_sql.metric(["mfu", "avg_step_time"], trace).df() # a pandas.DataFrame
    ccl_sql.diagnose(trace)                              # what is wrong, and what to fix first
    ccl_sql.report(trace)                                # shows itself in a notebook
    ccl_sql.connect().sql("FROM collective_calls")       # DuckDB, with every table and view

Everything raises `Error`, with a code, a place and a hint. Several threads may call at once.
"""

# What is imported by name is imported when it is asked for: the command `ccl-sql` begins here too.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ccl_sql._errors import Error as Error
    from ccl_sql._host import connect as connect
    from ccl_sql._host import extension as extension
    from ccl_sql._host import load as load
    from ccl_sql._ingest import ingest as ingest
    from ccl_sql._metric import diagnose as diagnose
    from ccl_sql._metric import metric as metric
    from ccl_sql._metric import metrics as metrics
    from ccl_sql._metric import traces as traces
    from ccl_sql._report import Comparison as Comparison
    from ccl_sql._report import Report as Report
    from ccl_sql._report import compare as compare
    from ccl_sql._report import report as report
    from ccl_sql._table import Table as Table
    from ccl_sql._trace import Finding as Finding
    from ccl_sql._trace import Trace as Trace

    __version__: str

_PLACES = {
    "Comparison": "_report",
    "Error": "_errors",
    "Finding": "_trace",
    "Report": "_report",
    "Table": "_table",
    "Trace": "_trace",
    "compare": "_report",
    "connect": "_host",
    "diagnose": "_metric",
    "extension": "_host",
    "ingest": "_ingest",
    "load": "_host",
    "metric": "_metric",
    "metrics": "_metric",
    "report": "_report",
    "traces": "_metric",
}

__all__ = [
    "Comparison",
    "Error",
    "Finding",
    "Report",
    "Table",
    "Trace",
    "compare",
    "connect",
    "diagnose",
    "extension",
    "ingest",
    "load",
    "metric",
    "metrics",
    "report",
    "traces",
]


if not TYPE_CHECKING:  # else every name would be there for checkers of types

    def __getattr__(name: str) -> object:
        import importlib

        if name == "__version__":
            from importlib.metadata import version

            found: object = version("ccl-sql")
        elif name in _PLACES:
            found = getattr(importlib.import_module(f"ccl_sql.{_PLACES[name]}"), name)
        else:
            raise AttributeError(f"module 'ccl_sql' has no attribute {name!r}")
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
