"""The dbt models as assets, in three steps, so that checks and ledger come in between.

usage: staging, timelines and the usage of the month; rating: its costs; marts: what analysts read, of live runs only.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import simplejson
from dagster import AssetExecutionContext, AssetKey, AssetsDefinition, MaterializeResult, PartitionsDefinition
from dagster_dbt import DagsterDbtTranslator, DagsterDbtTranslatorSettings, dbt_assets

from assets.partitions import MONTHS, running
from assets.steps import METERING_POOL, making, retried
from resources.databases import Metering
from resources.dbt import Dbt, ModelResult
from resources.installation import Installation
from tally.services.timelines import go_on_by


class Translator(DagsterDbtTranslator):
    """Names an asset like its model, unless the model's meta names it, and groups it by its folder."""

    def get_asset_key(self, dbt_resource_props: Mapping[str, Any]) -> AssetKey:
        """The key of a model or source."""
        meta = dbt_resource_props.get("meta", {}).get("dagster", {})
        return AssetKey(meta.get("asset_key", [dbt_resource_props["name"]]))

    def get_group_name(self, dbt_resource_props: Mapping[str, Any]) -> str:
        """The schema that the folder of a model stands for."""
        folder = str(dbt_resource_props["fqn"][-2])
        return "metering" if folder == "intermediate" else folder

    def get_partitions_def(self, dbt_resource_props: Mapping[str, Any]) -> PartitionsDefinition[str]:  # noqa: ARG002
        """Every model is built month by month."""
        return MONTHS


# A data test of a mart that fails, fails its step by name: as asset checks they would only be listed twice.
# Several small tables come with the events and with the prices: they are one asset each.
_TRANSLATOR = Translator(
    settings=DagsterDbtTranslatorSettings(enable_asset_checks=False, enable_duplicate_source_asset_keys=True)
)


def model_assets(manifest: Path) -> list[AssetsDefinition]:
    """The assets of a manifest."""
    models = _models_by_key(manifest)

    @dbt_assets(
        manifest=manifest,
        select="staging intermediate",
        exclude="int_rated_records",
        name="derive_usage",
        dagster_dbt_translator=_TRANSLATOR,
        pool=METERING_POOL,
    )
    def derive_usage(
        context: AssetExecutionContext, metering: Metering, dbt: Dbt, installation: Installation
    ) -> Iterator[MaterializeResult[None]]:
        yield from _build_for_run(context, metering, dbt, installation, models)

    @dbt_assets(
        manifest=manifest,
        select="int_rated_records",
        name="rate_usage",
        dagster_dbt_translator=_TRANSLATOR,
        pool=METERING_POOL,
    )
    def rate_usage(
        context: AssetExecutionContext, metering: Metering, dbt: Dbt, installation: Installation
    ) -> Iterator[MaterializeResult[None]]:
        yield from _build_for_run(context, metering, dbt, installation, models)

    @dbt_assets(
        manifest=manifest,
        select="marts",
        name="build_marts",
        dagster_dbt_translator=_TRANSLATOR,
        pool=METERING_POOL,
    )
    def build_marts(
        context: AssetExecutionContext,
        metering: Metering,  # noqa: ARG001  # its lock keeps two runs from building the marts at once
        dbt: Dbt,
    ) -> Iterator[MaterializeResult[None]]:
        with retried(context):
            built = dbt.run(_selected(context, models), {}, command="build")
        yield from _results(models, built)

    return [derive_usage, rate_usage, build_marts]


def _build_for_run(
    context: AssetExecutionContext,
    metering: Metering,
    dbt: Dbt,
    installation: Installation,
    models: dict[AssetKey, str],
) -> Iterator[MaterializeResult[None]]:
    run = running(context, metering, installation)
    with making(context, metering, run):
        go_on_by(metering.connection, dbt.derivation())
        built = dbt.run(_selected(context, models), {"run_id": str(run.id), "scope": run.scope})
    yield from _results(models, built)


def _selected(context: AssetExecutionContext, models: dict[AssetKey, str]) -> list[str]:
    return sorted(models[key] for key in context.selected_asset_keys)


def _results(models: dict[AssetKey, str], built: list[ModelResult]) -> Iterator[MaterializeResult[None]]:
    keys = {name: key for key, name in models.items()}
    for result in built:
        metadata: dict[str, Any] = {"seconds": round(result.seconds, 3)}
        if result.rows is not None:
            metadata["dagster/row_count"] = result.rows
        yield MaterializeResult(asset_key=keys[result.name], metadata=metadata)


def _models_by_key(manifest: Path) -> dict[AssetKey, str]:
    nodes = simplejson.loads(manifest.read_text(encoding="utf-8"))["nodes"].values()
    return {_TRANSLATOR.get_asset_key(node): node["name"] for node in nodes if node["resource_type"] == "model"}
