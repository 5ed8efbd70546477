"""What is read of a template, and what is none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.changes import created_by
from infra.parameters import missing_from, read_file, resolved, wrong_in, wrong_value
from infra.rules import broken_rules
from infra.template import MOST_BYTES, Parameter, Resource, TemplateError, as_text, read_template

INFRA = Path(__file__).parents[2] / "infra"


def test_parameters_resources_and_outputs_are_read() -> None:
    template = read_template(
        """
        Parameters:
          Plain: {Type: String}
          Count: {Type: Number, Default: 2, MinValue: 1, MaxValue: 3.5}
          Flag: {Type: String, AllowedValues: [true, false], Default: true}
          Secret: {Type: String, NoEcho: true, MinLength: 8}
        Conditions: {Has: !Not [!Equals [!Ref Plain, ""]]}
        Resources:
          A: {Type: AWS::S3::Bucket, DeletionPolicy: Retain, Properties: {Name: !GetAtt B.Name}}
          B: {Type: AWS::RDS::DBInstance, Condition: Has, DeletionPolicy: Snapshot}
        Outputs: {X: {Value: !Sub "${A}"}}
        """
    )
    assert template.parameters["Plain"] == Parameter("Plain")
    assert template.parameters["Count"].default == "2"
    assert template.parameters["Count"].max_value == 3.5
    assert template.parameters["Flag"].allowed_values == ("true", "false")
    assert template.parameters["Secret"].hidden
    assert template.resources == (
        Resource("A", "AWS::S3::Bucket", kept="stays"),
        Resource("B", "AWS::RDS::DBInstance", condition="Has", kept="leaves a snapshot"),
    )
    assert template.outputs == ("X",)


@pytest.mark.parametrize(
    ("resources", "capabilities"),
    [
        ("A: {Type: AWS::S3::Bucket, Properties: {RoleName: x}}", ()),
        ("A: {Type: AWS::IAM::Role}", ("CAPABILITY_IAM",)),
        ("A: {Type: AWS::IAM::Role, Properties: {RoleName: x}}", ("CAPABILITY_NAMED_IAM",)),
    ],
)
def test_aws_is_told_what_it_may_do(resources: str, capabilities: tuple[str, ...]) -> None:
    assert read_template(f"Resources: {{{resources}}}").capabilities == capabilities


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no Resources"),
        ("just words", "no Resources"),
        ("Resources: []", "no Resources"),
        ("Resources: {A: 1}", "A should be a mapping"),
        ("Resources: {}\nParameters: {P: 1}", "P should be a mapping"),
        ("Resources: [", "no YAML"),
        ("Resources: {}\nParameters: {P: {MinValue: many}}", "not of the kind that it should be"),
        ("Resources: {}\nParameters: {P: {AllowedValues: 5}}", "not of the kind that it should be"),
        ("Resources: {A: {Type: AWS::IAM::Role, Properties: 5}}", "not of the kind that it should be"),
        ("Resources: {}\nRules: {R: {Assertions: 5}}", "the Assertions of R should be a list"),
        ("Resources: {}\nParameters: {P: {Default: &a [*a]}}", "not of the kind that it should be"),
        ("Resources: " + "[" * 3000, "not of the kind that it should be"),
        ("Resources: {}\n# " + "x" * MOST_BYTES, "AWS takes 51200 at most"),
    ],
)
def test_what_is_no_template_is_told(text: str, told: str) -> None:
    with pytest.raises(TemplateError, match=told):
        read_template(text)


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
KEYS = ("Type", "Default", "AllowedValues", "MinValue", "MinLength", "AllowedPattern", "NoEcho", "Properties")


@given(
    part=st.sampled_from(["Parameters", "Resources", "Outputs", "Rules", "Conditions"]),
    body=st.dictionaries(st.sampled_from(KEYS), TREES, max_size=4) | TREES,
    value=st.text(max_size=5),
)
def test_whatever_stands_in_a_template_it_is_read_or_refused(part: str, body: object, value: str) -> None:
    text = json.dumps({"Resources": {"A": {"Type": "AWS::IAM::Role"}}, part: {"A": body}})
    try:
        template = read_template(text)
    except TemplateError:
        return
    for parameter in template.parameters.values():
        assert isinstance(wrong_value(parameter, value), str | None)
    created_by(template, dict.fromkeys(template.parameters, value))
    broken_rules(template.rules, dict.fromkeys(template.parameters, value))


@given(text=st.text(alphabet="ab:-[]{}&*!,'\" \n", max_size=30))
def test_whatever_stands_in_a_file_of_parameters_it_is_read_or_refused(text: str) -> None:
    found, problems = read_file(text, "file")
    assert all(isinstance(value, str) for value in found.values.values())
    assert isinstance(problems, list)


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (3, "3"), ("x", "x"), (["a", 1], "a,1"), (0.5, "0.5")]
)
def test_a_value_of_yaml_as_aws_takes_it(value: object, text: str) -> None:
    assert as_text(value) == text


@pytest.mark.parametrize("name", ["data", "service"])
def test_the_templates_that_come_along_are_read(name: str) -> None:
    template = read_template((INFRA / f"{name}.yaml").read_text())
    assert template.parameters
    assert template.outputs


def test_the_parameters_in_the_docs_are_all_that_a_first_deployment_needs() -> None:
    page = (INFRA.parent / "docs" / "aws.md").read_text()
    (example,) = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    values, problems = read_file(example, "docs/aws.md")
    templates = {name: read_template((INFRA / f"{name}.yaml").read_text()) for name in ("data", "service")}
    assert problems + wrong_in(values, templates) == []
    assert missing_from(templates["data"], values) == []
    service = templates["service"]
    assert missing_from(service, values) == []
    known = resolved(service, values, had={}, to_come=templates["data"].outputs)
    assert broken_rules(service.rules, known) == []


def test_what_the_service_takes_the_data_stack_puts_out() -> None:
    data = read_template((INFRA / "data.yaml").read_text())
    service = read_template((INFRA / "service.yaml").read_text())
    assert {"RedisUrlSecretArn", "RedisSecurityGroupId"} == set(data.outputs) & set(service.parameters)
    assert {"ClusterName", "ServiceName", "TargetGroupArn"} <= set(service.outputs)
    assert "DesiredCount" in service.parameters
