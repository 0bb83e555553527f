"""Settings come from four places in one order, and nothing in them is taken silently."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.config.settings import Settings, load_settings, setting_names
from common.errors import SettingsError


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load(text: str | None = None, overrides: Sequence[str] = ()) -> Settings:
    if text is not None:
        Path("medallion.yaml").write_text(text, encoding="utf-8")
    return load_settings(overrides=overrides)


def refusal(text: str | None = None, overrides: Sequence[str] = ()) -> str:
    with pytest.raises(SettingsError) as caught:
        load(text, overrides)
    return str(caught.value)


def test_without_any_source_the_defaults_hold() -> None:
    settings = load()
    assert (settings.bronze.trigger, settings.silver.trigger, settings.gold.trigger) == (
        "1 second",
        "follow",
        "follow",
    )
    assert settings.data_dir == Path("data")
    assert settings.spark.state_store == "rocksdb"


def test_file_then_environment_then_flag_each_for_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDALLION_BRONZE__TRIGGER", "7 seconds")
    monkeypatch.setenv("MEDALLION_BRONZE__MIN_PARTITIONS", "7")
    text = "bronze:\n  trigger: 5 seconds\n  min_partitions: 5\n  max_offsets_per_trigger: 5\n"
    bronze = load(text, ["bronze.min_partitions=9"]).bronze
    assert (bronze.max_offsets_per_trigger, bronze.trigger, bronze.min_partitions) == (5, "7 seconds", 9)


def test_a_flag_of_its_own_wins_and_an_absent_one_does_not() -> None:
    Path("medallion.yaml").write_text("pipeline: a.py\n")
    assert load_settings(flags={"pipeline": None}).pipeline == Path("a.py")
    assert load_settings(flags={"pipeline": Path("b.py")}).pipeline == Path("b.py")


def test_one_file_does_not_linger_for_the_next_load(tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("bronze:\n  trigger: 9 seconds\n")
    assert load_settings(file=other).bronze.trigger == "9 seconds"
    assert load_settings().bronze.trigger == "1 second"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "bronze:\n  triger: x\n",
            "medallion.yaml:2:3: bronze.triger is not a setting; did you mean 'bronze.trigger'?",
        ),
        ("bronz:\n  trigger: x\n", "medallion.yaml:1:1: bronz is not a setting; did you mean 'bronze'?"),
        ("- a\n", "medallion.yaml: expected 'key: value' lines, found a list."),
        (
            "a: [\n",
            "medallion.yaml:2:1: not valid YAML (expected the node content, but found '<stream end>').",
        ),
        (
            "bronze:\n  min_partitions: 1\nbronze:\n  min_partitions: 2\n",
            "medallion.yaml:3:1: not valid YAML ('bronze' stands here a second time; keep one of them).",
        ),
        (
            "bronze:\n  trigger: 5\n",
            (
                "medallion.yaml:2:3: bronze.trigger is 5: 5 is not a duration; "
                "write it like '500 milliseconds' or '2 seconds'."
            ),
        ),
        (
            "catalog: unity\n",
            (
                "medallion.yaml:1:1: catalog is 'unity': Unity Catalog is not supported: its open server "
                "could not be had for a test; write hive for a Hive metastore, session for the catalog of "
                "the job's Spark session, or none (docs/observe/catalog.md)."
            ),
        ),
        (
            "spark:\n  shuffle_partitions: 0\n",
            "medallion.yaml:2:3: spark.shuffle_partitions is 0: must be at least 1.",
        ),
    ],
)
def test_a_mistake_in_the_file_names_the_file_and_the_key(text: str, message: str) -> None:
    assert refusal(text) == message


def test_every_mistake_is_told_at_once() -> None:
    lines = refusal("bronze:\n  triger: x\nspark:\n  state_store: rocks\n").splitlines()
    assert [line.split(" is ")[0] for line in sorted(lines)] == [
        "medallion.yaml:2:3: bronze.triger",
        "medallion.yaml:4:3: spark.state_store",
    ]


def test_an_unknown_variable_is_refused_and_the_nearest_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDALLION_BRONZ__TRIGGER", "1 second")
    assert refusal() == (
        "environment: MEDALLION_BRONZ__TRIGGER is not a setting; did you mean 'MEDALLION_BRONZE__TRIGGER'?"
    )


def test_a_variable_of_the_wrong_type_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDALLION_BRONZE__MIN_PARTITIONS", "many")
    assert refusal().startswith(
        "environment MEDALLION_BRONZE__MIN_PARTITIONS: bronze.min_partitions is 'many': expected a whole"
    )


def test_a_variable_that_is_no_json_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDALLION_BRONZE", "{")
    assert 'environment: error parsing value for field "bronze"' in refusal()


def test_keys_of_kafka_and_spark_keep_their_dots_and_are_texts() -> None:
    settings = load(
        "spark:\n  conf:\n    spark.a: 5\n    spark.b: true\n", ["kafka.options.sasl.jaas.config=x y=z"]
    )
    assert settings.spark.conf == {"spark.a": "5", "spark.b": "true"}
    assert settings.kafka.options == {"sasl.jaas.config": "x y=z"}


@pytest.mark.parametrize("text", ["8484", "'8484'", "0", "127.0.0.1:8484"])
def test_the_address_of_the_page_may_be_a_port_alone(text: str) -> None:
    """Which YAML reads as a number."""
    address = load_settings(overrides=[f"http.address={text}"]).http.address
    assert address == text.strip("'")
    with pytest.raises(SettingsError):
        load_settings(overrides=["http.address=true"])


def test_a_wrong_option_never_shows_its_value() -> None:
    message = refusal("kafka:\n  options:\n    sasl.password: [hunter2]\n")
    assert "kafka.options.sasl.password" in message
    assert "hunter2" not in message


@pytest.mark.parametrize(
    ("given_text", "spark_text"),
    [
        ("2s", "2 seconds"),
        ("500ms", "500 milliseconds"),
        ("1 second", "1 second"),
        ("1.5 seconds", "1.5 seconds"),
        (" 10 minutes ", "10 minutes"),
        ("asap", ""),
    ],
)
def test_durations_become_what_spark_reads(given_text: str, spark_text: str) -> None:
    assert load(None, [f"bronze.trigger='{given_text}'"]).bronze.trigger == spark_text


@pytest.mark.parametrize("text", ["1.5 minutes", "soon", "5", "-1 second", "1 month"])
def test_durations_that_spark_refuses_are_refused(text: str) -> None:
    assert "is not a duration" in refusal(None, [f"bronze.trigger='{text}'"])


@pytest.mark.parametrize("layer", ["silver", "gold"])
@pytest.mark.parametrize(
    ("text", "trigger"), [("follow", "follow"), (" Follow ", "follow"), ("2s", "2 seconds"), ("asap", "")]
)
def test_silver_and_gold_follow_a_table_or_have_an_interval(layer: str, text: str, trigger: str) -> None:
    assert getattr(load(None, [f"{layer}.trigger='{text}'"]), layer).trigger == trigger


def test_bronze_has_no_table_to_follow() -> None:
    assert refusal(None, ["bronze.trigger=follow"]) == (
        "flag: bronze.trigger is 'follow': a bronze table reads no table of the pipeline and has no table to "
        "follow; write an interval like '1 second', or 'asap'."
    )


@pytest.mark.parametrize("layer", ["bronze", "silver", "gold"])
@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("Continuous", "Spark's continuous processing cannot write Delta tables: trigger 'asap' starts"),
        ("continuous 1 second", "Spark's continuous processing cannot"),
        ("continuous=1 second", "Spark's continuous processing cannot"),
        ("Trigger.Continuous('1 second')", "Spark's continuous processing cannot"),
        ("trigger(continuous='500 ms')", "Spark's continuous processing cannot"),
        ("{continuous: 1 second}", "Spark's continuous processing cannot"),
        ("continous 1 second", "Spark's continuous processing cannot"),
        ("real-time", "the real-time mode of Spark cannot"),
        ("realTime 5 minutes", "the real-time mode of Spark cannot"),
        ("Trigger.Once()", "'once' is said by the command"),
        ("available now", "'availableNow' is said by the command"),
        ("processingTime='5 seconds'", "the interval alone"),
        ("5 secons", "did you mean '5 seconds'?"),
        ("every 5 seconds", "is not a duration"),
        ("folow", "did you mean 'follow'?"),
    ],
)
def test_a_trigger_of_spark_is_refused_in_the_same_words_however_it_is_spelt(
    layer: str, given: str, text: str
) -> None:
    """Spark's continuous processing has no micro-batches; it is not the same as ``asap``."""
    if layer == "bronze" and "follow" in text:
        return
    assert text in refusal(None, [f"{layer}.trigger={given}"])


def test_an_empty_section_is_as_if_it_were_not_there() -> None:
    assert load("bronze:\n").bronze.trigger == "1 second"


def test_an_empty_address_of_the_brokers_is_none_and_a_reference_is_not_judged() -> None:
    for text in ("", "env:BROKERS", "file:/run/secrets/brokers"):
        assert (
            load_settings(file=None, overrides=[f"kafka.bootstrap_servers={text}"]).kafka.bootstrap_servers
            == text
        )
    with pytest.raises(SettingsError, match="host:port"):
        load_settings(file=None, overrides=["kafka.bootstrap_servers=broker1"])


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load().bronze.trigger = "2 seconds"


LEAVES = sorted(name for name in setting_names() if "." in name and len(name.split(".")[1]) > 3)


@given(st.sampled_from(LEAVES), st.data())
def test_any_setting_with_a_letter_doubled_is_told_and_the_right_one_named(
    name: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(name.index(".") + 1, len(name) - 1))
    wrong = name[:at] + name[at] + name[at:]
    assert refusal(None, [f"{wrong}=1"]) == f"flag: {wrong} is not a setting; did you mean {name!r}?"


def test_a_settings_file_that_refers_to_itself_is_refused(tmp_path: Path) -> None:
    """By an alias of YAML; it ended in a ``RecursionError``."""
    file = tmp_path / "medallion.yaml"
    file.write_text("kafka: &loop\n  options: *loop\n")
    with pytest.raises(SettingsError, match="an alias refers to the section that it is in"):
        load_settings(file=file)
