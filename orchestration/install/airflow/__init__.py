"""Airflow DAGs of a pipeline: ``build_dag``, and ``MedallionOperator`` for any other command.

The only folder that imports Airflow. It is imported in Airflow's environment, where Spark, Delta and Kafka's
client are not installed: it needs only the declarations (``common.declare``), which need pydantic. Tasks call
the ``medallion`` command, which has an environment of its own.
"""

from orchestration.install.airflow.dag import build_dag
from orchestration.install.airflow.operator import MedallionOperator

__all__ = ["MedallionOperator", "build_dag"]
